//! Checks commands and actions against rules and earlier answers, and asks an approver about the rest.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hermes_config::{
    Redactor,
    sync::{Mutex, MutexGuard},
};
use hermes_protocol::{escape_pattern, matches_pattern};
use hermes_store::SessionId;
use tokio_util::sync::CancellationToken;

use super::{
    ApprovalMode, ApprovalRequest, ApprovalSettings, Approver, CommandContext, Decision, Finding,
    Judge, Judgement, Verdict,
};
use crate::{
    approval::{
        command::{classify, classify::command_texts},
        session_files::{PastCallReader, SessionFiles},
    },
    policy::PolicyHandle,
    printable::printable,
};

/// Longest text that is shown, in characters.
const MAX_TEXT_CHARS: usize = 3800;
/// Joiners and soft hyphens: scripts need them, commands do not, and they can make one look like another.
const INVISIBLE_JOINERS: [char; 3] = ['\u{200c}', '\u{200d}', '\u{ad}'];
/// Longest reason of a refusal that goes back to the model.
const MAX_REASON_CHARS: usize = 280;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    #[error("blocked: this {0}. It cannot be approved; do not try it in another way")]
    Blocked(String),
    #[error("the operator's policy does not allow `{0}` here; go on without it")]
    PolicyDenied(String),
    #[error("blocked by the user's `approvals.deny` pattern `{0}`; do not try it in another way")]
    DenyListed(String),
    /// Denied, or not answered in time.
    #[error(
        "not approved: {0}. Do not try the same in another way; go on without it or ask the user"
    )]
    NotApproved(String),
}

/// Receives the names of rules, or the patterns of commands, that are allowed from now on.
type AlwaysCallback = Arc<dyn Fn(&[String]) + Send + Sync>;

/// The decisions of one session. Clones share what was allowed in it.
#[derive(Clone)]
pub struct Approvals {
    settings: ApprovalSettings,
    approver: Arc<dyn Approver>,
    judge: Option<Arc<dyn Judge>>,
    redactor: Redactor,
    session: Option<SessionId>,
    on_always: Option<AlwaysCallback>,
    policy: PolicyHandle,
    allowed: Arc<Mutex<Allowed>>,
    session_files: SessionFiles,
    /// Whether the sandbox for commands was mentioned in this session.
    sandbox_hint_shown: Arc<AtomicBool>,
}

/// What was allowed in a session.
#[derive(Default)]
struct Allowed {
    /// Rules, and patterns that were allowed for ever.
    rules: BTreeSet<String>,
    /// What was shown and allowed until the session ends.
    shown: BTreeSet<SessionGrant>,
}

/// Something as it was asked about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SessionGrant {
    /// A command line, and the directory that it is run in.
    Line(PathBuf, String),
    /// Anything else, by its subject.
    Action(String),
}

/// What a command is held by, besides these rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxState {
    Unavailable,
    /// Not confined, although this machine supports a sandbox.
    Available,
    /// Confined: nothing outside the workspace can be reached.
    Enforced,
}

impl Approvals {
    /// Asks this approver about everything that the settings do not decide.
    pub fn new(settings: ApprovalSettings, approver: Arc<dyn Approver>) -> Self {
        Self {
            settings,
            approver,
            judge: None,
            redactor: Redactor::default(),
            session: None,
            on_always: None,
            policy: PolicyHandle::default(),
            allowed: Arc::default(),
            session_files: SessionFiles::default(),
            sandbox_hint_shown: Arc::default(),
        }
    }

    /// A copy with other settings. What was allowed in this session stays allowed.
    #[must_use]
    pub fn with_settings(&self, settings: ApprovalSettings, redactor: Redactor) -> Self {
        Self {
            settings,
            redactor,
            ..self.clone()
        }
    }

    /// A copy that asks another approver.
    #[must_use]
    pub fn with_approver(&self, approver: Arc<dyn Approver>) -> Self {
        Self {
            approver,
            ..self.clone()
        }
    }

    /// Applies the operator's approval timeout.
    #[must_use]
    pub fn with_policy(mut self, policy: PolicyHandle) -> Self {
        self.policy = policy;
        self
    }

    /// Decides clear cases in the mode [`ApprovalMode::Smart`].
    #[must_use]
    pub fn with_judge(mut self, judge: Arc<dyn Judge>) -> Self {
        self.judge = Some(judge);
        self
    }

    /// Takes credentials out of questions.
    #[must_use]
    pub fn with_redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Says in questions which session asks.
    #[must_use]
    pub fn for_session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Sets the callback that writes "always" answers into `command_allowlist`.
    #[must_use]
    pub fn on_always(mut self, keep: impl Fn(&[String]) + Send + Sync + 'static) -> Self {
        self.on_always = Some(Arc::new(keep));
        self
    }

    /// Records a file that the model has written.
    pub fn record_written_file(&self, path: &Path) {
        self.session_files.record(path);
    }

    /// Knows what was done in the session before this process.
    #[must_use]
    pub(crate) fn with_past_calls(mut self, past: PastCallReader) -> Self {
        self.session_files = SessionFiles::with_past(past);
        self
    }

    pub async fn check_command(
        &self,
        tool: &str,
        command: &str,
        command_context: &CommandContext,
        cancel: &CancellationToken,
    ) -> Result<(), ApprovalError> {
        let holding = SandboxState::Unavailable;
        self.check_command_in_sandbox(tool, command, command_context, holding, cancel)
            .await
    }

    /// Decides about a command line that a sandbox may confine.
    pub async fn check_command_in_sandbox(
        &self,
        tool: &str,
        command: &str,
        command_context: &CommandContext,
        holding: SandboxState,
        cancel: &CancellationToken,
    ) -> Result<(), ApprovalError> {
        let mut command_context = command_context.clone();
        let known = self.session_files.known(&command_context.protected_paths);
        command_context.written_files.merge(&known.await);
        let decided = self
            .evaluate_command(tool, command, &command_context, holding, cancel)
            .await;
        if decided.is_ok() {
            self.session_files.record_line(command, &command_context);
        }
        decided
    }

    async fn evaluate_command(
        &self,
        tool: &str,
        command: &str,
        command_context: &CommandContext,
        holding: SandboxState,
        cancel: &CancellationToken,
    ) -> Result<(), ApprovalError> {
        let verdict = classify::classify(command, command_context);
        if let Verdict::Block(finding) = verdict {
            return Err(ApprovalError::Blocked(finding.reason));
        }
        if let Some(pattern) = self.find_deny_pattern(command, command_context) {
            return Err(ApprovalError::DenyListed(pattern.to_owned()));
        }
        let Verdict::Ask(findings) = verdict else {
            return Ok(());
        };
        let shown =
            SessionGrant::Line(command_context.directory.clone(), command.trim().to_owned());
        if self.lock_allowed().shown.contains(&shown) {
            return Ok(());
        }
        let open: Vec<&Finding> = findings
            .iter()
            .filter(|finding| !self.is_allowed(finding, command))
            .filter(|finding| holding != SandboxState::Enforced || !finding.is_covered_by_sandbox())
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let mut reasons: Vec<&str> = open.iter().map(|finding| finding.reason.as_str()).collect();
        reasons.dedup();
        let rules: BTreeSet<String> = open.iter().map(|finding| finding.rule.to_owned()).collect();
        let is_avoidable = open.iter().all(|finding| finding.is_covered_by_sandbox());
        let advice =
            (holding == SandboxState::Available && is_avoidable).then(|| self.sandbox_hint());
        // Only a command that is shown unchanged can be remembered.
        let is_shown_whole = self.sanitize_text(command.trim()) == command.trim();
        let request = ApprovalRequest {
            tool: tool.to_owned(),
            subject: command.to_owned(),
            reason: reasons.join("; "),
            rules: rules.into_iter().collect(),
            pattern: is_shown_whole.then(|| escape_pattern(command.trim())),
            hint: advice.flatten(),
            can_allow_always: is_shown_whole,
            ..ApprovalRequest::default()
        };
        self.decide_request(request, Some(shown), cancel).await
    }

    /// Shown once in a session: with a sandbox this question would not be asked.
    fn sandbox_hint(&self) -> Option<String> {
        let is_first = !self.sandbox_hint_shown.swap(true, Ordering::Relaxed);
        is_first.then(|| {
            "with `terminal.sandbox: workspace` in config.yaml this would not be asked: commands then reach the \
             working directory alone"
                .to_owned()
        })
    }

    /// Decides about something that is not a command. It is allowed if all its rules are, or if it has a pattern and was
    /// allowed itself.
    pub async fn check_action(
        &self,
        request: ApprovalRequest,
        cancel: &CancellationToken,
    ) -> Result<(), ApprovalError> {
        let shown = request.pattern.is_some();
        let shown = shown.then(|| SessionGrant::Action(request.subject.clone()));
        let is_known = {
            let allowed = self.lock_allowed();
            let is_allowed =
                |rule| allowed.rules.contains(rule) || self.settings.allow.contains(rule);
            let is_shown = shown.as_ref().is_some_and(|it| allowed.shown.contains(it));
            is_shown || (!request.rules.is_empty() && request.rules.iter().all(is_allowed))
        };
        if is_known {
            Ok(())
        } else {
            self.decide_request(request, shown, cancel).await
        }
    }

    /// Asks a person, whatever the home's own settings say. Session answers count, "always" answers do not: the home
    /// could have written those itself.
    pub async fn require_approval(
        &self,
        mut request: ApprovalRequest,
        cancel: &CancellationToken,
    ) -> Result<(), ApprovalError> {
        request.can_allow_always = false;
        let is_known = {
            let allowed = &self.lock_allowed().rules;
            !request.rules.is_empty() && request.rules.iter().all(|rule| allowed.contains(rule))
        };
        if is_known {
            return Ok(());
        }
        self.request_from_person(self.presented(request), None, cancel)
            .await
    }

    /// The request as it can be shown.
    fn presented(&self, mut request: ApprovalRequest) -> ApprovalRequest {
        request.subject = self.sanitize_text(&request.subject);
        request.reason = self.sanitize_text(&request.reason);
        request.session.clone_from(&self.session);
        request.timeout = Some(self.approval_timeout());
        request
    }

    fn approval_timeout(&self) -> Duration {
        let policy = self.policy.policy();
        policy.approval_timeout(self.settings.timeout, self.settings.configured_timeout)
    }

    async fn decide_request(
        &self,
        request: ApprovalRequest,
        shown: Option<SessionGrant>,
        cancel: &CancellationToken,
    ) -> Result<(), ApprovalError> {
        if self.settings.mode == ApprovalMode::Off {
            return Ok(());
        }
        let request = self.presented(request);
        if let Some(judge) = self
            .judge
            .as_ref()
            .filter(|_| self.settings.mode == ApprovalMode::Smart)
        {
            let judgement = tokio::select! {
                judgement = judge.judge(&request) => judgement,
                () = cancel.cancelled() => return Err(interrupted_error()),
            };
            match judgement {
                Judgement::Harmless => return Ok(()),
                Judgement::Harmful => {
                    return Err(ApprovalError::NotApproved(
                        "a review found it harmful".into(),
                    ));
                }
                Judgement::Unclear => {}
            }
        }
        self.request_from_person(request, shown, cancel).await
    }

    async fn request_from_person(
        &self,
        request: ApprovalRequest,
        shown: Option<SessionGrant>,
        cancel: &CancellationToken,
    ) -> Result<(), ApprovalError> {
        let timeout = self.approval_timeout();
        let rules = request.rules.clone();
        let kept = match &request.pattern {
            Some(pattern) => vec![pattern.clone()],
            None => rules.clone(),
        };
        let may_be_permanent = request.can_allow_always;
        let decision = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(interrupted_error()),
            decision = self.approver.request_approval(request) => decision,
            () = tokio::time::sleep(timeout) => {
                let seconds = timeout.as_secs();
                return Err(ApprovalError::NotApproved(format!("nobody answered within {seconds} s")));
            }
        };
        match decision {
            Decision::Once => {}
            Decision::Always if may_be_permanent => {
                self.lock_allowed().rules.extend(kept.iter().cloned());
                if let Some(keep) = &self.on_always {
                    keep(&kept);
                }
            }
            // An "always" that was not offered counts for the session.
            Decision::Session | Decision::Always => match shown {
                Some(shown) => {
                    self.lock_allowed().shown.insert(shown);
                }
                None => self.lock_allowed().rules.extend(rules),
            },
            Decision::Denied { reason } => {
                let reason = reason.unwrap_or_else(|| "the user said no".into());
                return Err(ApprovalError::NotApproved(
                    reason.chars().take(MAX_REASON_CHARS).collect(),
                ));
            }
        }
        Ok(())
    }

    fn lock_allowed(&self) -> MutexGuard<'_, Allowed> {
        self.allowed.lock()
    }

    /// Whether the rule is allowed, or a pattern matches the command it applies to, or the whole line.
    fn is_allowed(&self, finding: &Finding, line: &str) -> bool {
        let allowed = &self.lock_allowed().rules;
        let exact = escape_pattern(line.trim());
        allowed.iter().chain(&self.settings.allow).any(|rule| {
            rule == finding.rule || *rule == exact || matches_pattern(rule, &finding.command)
        })
    }

    /// The pattern that matches the line or a command in it.
    fn find_deny_pattern(&self, command: &str, command_context: &CommandContext) -> Option<&str> {
        if self.settings.deny.is_empty() {
            return None;
        }
        let mut texts = command_texts(command, command_context);
        texts.push(command.trim().to_owned());
        let denies = |pattern: &&String| {
            texts
                .iter()
                .any(|text| matches_pattern(pattern.trim(), text))
        };
        self.settings.deny.iter().find(denies).map(String::as_str)
    }

    /// Removes credentials and invisible characters, and truncates.
    fn sanitize_text(&self, text: &str) -> String {
        let visible: String = printable(text)
            .chars()
            .filter(|c| !INVISIBLE_JOINERS.contains(c))
            .map(|c| if c == '\t' { ' ' } else { c })
            .collect();
        let redacted = self.redactor.redact(&visible);
        if redacted.chars().count() <= MAX_TEXT_CHARS {
            return redacted.into_owned();
        }
        let begin = redacted.chars().take(MAX_TEXT_CHARS - 1);
        begin.chain(['…']).collect()
    }
}

fn interrupted_error() -> ApprovalError {
    ApprovalError::NotApproved("interrupted".into())
}

#[cfg(test)]
mod tests;
