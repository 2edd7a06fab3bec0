//! Approvals that other processes of the home can answer as well.
//!
//! While an approver waits for its person, the request is a row in `runtime.db`, so that others can see it. The first
//! answer decides: the person's, or one that is submitted to this process ([`DecisionRegistry`]). The row then records the
//! outcome. An answer in the row itself is ignored: whoever can write to the database could answer in somebody else's
//! name, commands of the agent among them.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use hermes_config::Home;
use hermes_mcp::process;
use hermes_store::{
    SessionKey, StoreError,
    runtime::{
        Approval, ApprovalAnswer, ApprovalOutcome, ApprovalState, NewApproval, RuntimeStore,
        new_approval_id,
    },
};
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

use super::{
    ApprovalKind, ApprovalRequest, Approver, Decision,
    decisions::{AnswerRule, DecisionRegistry, DecisionWaiter, SubmittedDecision},
};
use crate::printable::printable;

/// How often the row is checked for answers that somebody wrote into it.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long a person's answer waits for the database.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
const RETENTION: Duration = Duration::from_hours(24 * 7);
/// Recorded as answerer when the local approver answered.
const LOCAL_ANSWERER: &str = "owner";
/// Longest name of another answerer, in characters.
const MAX_NAME_CHARS: usize = 60;

/// Shows the person who else answered, or that nobody else can.
type NoticeCallback = Box<dyn Fn(&str) + Send + Sync>;

/// Receives changes of a request's row.
type ChangeCallback = Box<dyn Fn(ApprovalChange<'_>) + Send + Sync>;

/// A change of a published request.
#[derive(Debug, Clone, Copy)]
pub enum ApprovalChange<'a> {
    Opened {
        approval: &'a NewApproval,
        /// Whether a yes has to bring answers.
        needs_answers: bool,
    },
    Closed {
        id: &'a str,
        outcome: ApprovalOutcome,
    },
}

/// An approver whose requests are in the home's database while they are open.
pub struct PublishedApprover {
    home: Home,
    approver: Arc<dyn Approver>,
    session_key: Option<SessionKey>,
    run: Option<String>,
    tell: Option<NoticeCallback>,
    follow: Option<ChangeCallback>,
    decisions: DecisionRegistry,
    /// Opened by the first request. `None` if that failed.
    store: OnceCell<Option<RuntimeStore>>,
    /// Whether store and decisions are shared and stay open.
    is_shared: bool,
    /// Closes the rows of abandoned requests.
    tasks: TaskTracker,
}

impl PublishedApprover {
    /// Publishes this approver's requests. The database is opened by the first one.
    pub fn new(home: Home, approver: Arc<dyn Approver>) -> Self {
        Self {
            decisions: DecisionRegistry::new(home.clone()),
            home,
            approver,
            session_key: None,
            run: None,
            tell: None,
            follow: None,
            store: OnceCell::new(),
            is_shared: false,
            tasks: TaskTracker::new(),
        }
    }

    /// Uses a shared database and decision registry. Both stay open.
    #[must_use]
    pub fn with_shared_store(mut self, store: RuntimeStore, decisions: DecisionRegistry) -> Self {
        self.store = OnceCell::new_with(Some(Some(store)));
        self.decisions = decisions;
        self.is_shared = true;
        self
    }

    /// Names the run that makes the requests.
    #[must_use]
    pub fn in_run(mut self, run: impl Into<String>) -> Self {
        self.run = Some(run.into());
        self
    }

    /// Sets the callback for opened and closed requests.
    #[must_use]
    pub fn on_change(
        mut self,
        follow: impl Fn(ApprovalChange<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.follow = Some(Box::new(follow));
        self
    }

    /// Names the chat that the requests belong to.
    #[must_use]
    pub fn in_chat(mut self, key: SessionKey) -> Self {
        self.session_key = Some(key);
        self
    }

    /// Sets the callback for notices to the person: who else answered, and once if nobody else can.
    #[must_use]
    pub fn on_notice(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    /// Waits briefly until every row is closed.
    pub async fn close(&self) {
        self.tasks.close();
        // Rows that stay open are closed by the next process that asks.
        let _ = tokio::time::timeout(STORE_TIMEOUT, self.tasks.wait()).await;
        if self.is_shared {
            return;
        }
        self.decisions.close().await;
        if let Some(Some(store)) = self.store.get() {
            store.close().await;
        }
    }

    fn notify_change(&self, change: ApprovalChange<'_>) {
        if let Some(follow) = &self.follow {
            follow(change);
        }
    }

    fn notify_person(&self, line: &str) {
        if let Some(tell) = &self.tell {
            tell(line);
        }
    }

    /// The database, after closing rows that ended processes left open.
    async fn store(&self) -> Option<&RuntimeStore> {
        let opened = self.store.get_or_init(async || match self.open().await {
            Ok(store) => Some(store),
            Err(error) => {
                tracing::warn!(%error, "approvals cannot be published");
                self.notify_person(&format!(
                    "This can be answered only here, because approvals cannot be published: {error}"
                ));
                None
            }
        });
        opened.await.as_ref()
    }

    async fn open(&self) -> Result<RuntimeStore, StoreError> {
        let store = RuntimeStore::open(&self.home).await?;
        store.expire_approvals(is_owner_gone).await?;
        store.prune_approvals(RETENTION).await?;
        Ok(store)
    }

    /// Publishes the request and waits for a decision from elsewhere, forever if need be.
    async fn wait_for_remote_decision(&self, row: &ApprovalRow<'_>) -> SubmittedDecision {
        let Some(store) = self.store().await else {
            return std::future::pending().await;
        };
        let store = row.store.get_or_init(|| store.clone());
        let rule = row.answer_rule();
        let waiting = self.decisions.register_request(&row.new.id, rule).await;
        let waiting = row.waiter.get_or_init(|| waiting);
        if let Err(error) = row.publish(store).await {
            tracing::warn!(%error, "approval could not be published");
            return std::future::pending().await;
        }
        tokio::select! {
            given = waiting.wait() => given,
            never = row.watch_for_answers(store) => match never {},
        }
    }
}

impl PublishedApprover {
    /// Requests a decision from elsewhere alone, with all that it says. Waits forever if need be.
    pub fn request_decision(&self, request: &ApprovalRequest) -> BoxFuture<'_, SubmittedDecision> {
        let row = ApprovalRow::new(self, request);
        Box::pin(async move {
            let given = self.wait_for_remote_decision(&row).await;
            row.accept_remote(&given).await;
            given
        })
    }
}

impl Approver for PublishedApprover {
    fn request_approval(&self, request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        let row = ApprovalRow::new(self, &request);
        Box::pin(async move {
            let given = tokio::select! {
                decision = self.approver.request_approval(request) => return row.accept_local(decision).await,
                given = self.wait_for_remote_decision(&row) => given,
            };
            row.accept_remote(&given).await
        })
    }
}

/// A published request and its row.
struct ApprovalRow<'a> {
    published: &'a PublishedApprover,
    new: NewApproval,
    needs_answers: bool,
    started: Instant,
    /// Set before the row is written.
    store: OnceLock<RuntimeStore>,
    /// Its registration for remote decisions.
    waiter: OnceLock<DecisionWaiter>,
    is_announced: AtomicBool,
    /// The outcome, as far as known.
    outcome: Option<ApprovalOutcome>,
    is_closed: bool,
}

impl<'a> ApprovalRow<'a> {
    fn new(published: &'a PublishedApprover, request: &ApprovalRequest) -> Self {
        let pid = std::process::id();
        let started = process::start_time(pid).and_then(|start| i64::try_from(start).ok());
        let kind = match request.kind {
            ApprovalKind::BuiltIn => "exec",
            ApprovalKind::Mcp => "mcp",
        };
        let new = NewApproval {
            id: request.id.clone().unwrap_or_else(new_approval_id),
            kind: kind.into(),
            session_key: published.session_key.clone(),
            session: request.session.clone(),
            run_id: published.run.clone(),
            command: request.subject.clone(),
            description: request.reason.clone(),
            pattern_keys: request.rules.clone(),
            allow_permanent: request.can_allow_always,
            timeout: request.timeout,
            owner_pid: pid,
            owner_start: started,
        };
        Self {
            published,
            new,
            needs_answers: request.needs_answers,
            started: Instant::now(),
            store: OnceLock::new(),
            waiter: OnceLock::new(),
            is_announced: AtomicBool::new(false),
            outcome: None,
            is_closed: false,
        }
    }

    async fn publish(&self, store: &RuntimeStore) -> Result<(), StoreError> {
        store.publish_approval(&self.new).await?;
        self.is_announced.store(true, Ordering::Relaxed);
        self.published.notify_change(ApprovalChange::Opened {
            approval: &self.new,
            needs_answers: self.needs_answers,
        });
        Ok(())
    }

    fn answer_rule(&self) -> AnswerRule {
        if self.needs_answers {
            AnswerRule::WithAnswers
        } else if self.new.allow_permanent {
            AnswerRule::Any
        } else {
            AnswerRule::NotPermanent
        }
    }

    /// Watches for answers written into the row. They decide nothing: they are logged and removed.
    async fn watch_for_answers(&self, store: &RuntimeStore) -> std::convert::Infallible {
        let id = &self.new.id;
        let mut is_told = false;
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let row = match store.approval(id).await {
                Ok(Some(row)) if row.state != ApprovalState::Open => row,
                _ => continue,
            };
            if is_told || self.is_late() {
                continue;
            }
            is_told = true;
            let by = printable(row.answered_by.as_deref().unwrap_or_default());
            tracing::warn!(
                approval = id,
                by = &*by,
                "ignored an approval answer that was written into the database"
            );
            if let Err(error) = store.reopen_approval(id).await {
                tracing::warn!(%error, "approval row could not be reopened");
            }
        }
    }

    fn is_late(&self) -> bool {
        let timeout = self.new.timeout;
        timeout.is_some_and(|timeout| self.started.elapsed() >= timeout)
    }

    async fn accept_remote(mut self, given: &SubmittedDecision) -> Decision {
        let answer = given.answer;
        self.outcome = Some(ApprovalOutcome::Answered(answer));
        self.published.notify_person(&format_remote_answer(given));
        self.record_answer(given).await;
        self.close(ApprovalOutcome::Answered(answer)).await;
        match answer {
            ApprovalAnswer::Once => Decision::Once,
            ApprovalAnswer::Session => Decision::Session,
            ApprovalAnswer::Always => Decision::Always,
            ApprovalAnswer::Deny => Decision::Denied {
                reason: given.reason.clone(),
            },
        }
    }

    /// The local approver has decided. That counts unless a remote decision came first.
    async fn accept_local(mut self, decided: Decision) -> Decision {
        if let Some(given) = self.waiter.get().and_then(DecisionWaiter::finish) {
            return self.accept_remote(&given).await;
        }
        let (answer, reason) = match &decided {
            Decision::Once => (ApprovalAnswer::Once, None),
            Decision::Always if self.new.allow_permanent => (ApprovalAnswer::Always, None),
            Decision::Session | Decision::Always => (ApprovalAnswer::Session, None),
            Decision::Denied { reason } => (ApprovalAnswer::Deny, reason.clone()),
        };
        self.outcome = Some(ApprovalOutcome::Answered(answer));
        let given = SubmittedDecision {
            reason,
            ..SubmittedDecision::new(answer, LOCAL_ANSWERER)
        };
        self.record_answer(&given).await;
        self.close(ApprovalOutcome::Answered(answer)).await;
        decided
    }

    async fn record_answer(&self, given: &SubmittedDecision) {
        let Some(store) = self.store.get() else {
            return;
        };
        let id = &self.new.id;
        let recorded = async {
            // An answer that somebody wrote into the row would block the real one.
            store.reopen_approval(id).await?;
            store
                .answer_approval(id, given.answer, &given.by, given.reason.as_deref())
                .await
        };
        if let Ok(Err(error)) = tokio::time::timeout(STORE_TIMEOUT, recorded).await {
            tracing::warn!(%error, "approval row could not be answered");
        }
    }

    async fn close(&mut self, outcome: ApprovalOutcome) {
        self.outcome = Some(outcome);
        let Some(store) = self.store.get() else {
            return;
        };
        let closed = store.resolve_approval(&self.new.id, outcome);
        match tokio::time::timeout(STORE_TIMEOUT, closed).await {
            Ok(Ok(_)) => self.is_closed = true,
            Ok(Err(error)) => tracing::warn!(%error, "approval row could not be closed"),
            Err(_) => {}
        }
    }
}

impl Drop for ApprovalRow<'_> {
    /// The request was abandoned: it timed out, or the turn was interrupted.
    fn drop(&mut self) {
        let outcome = self.outcome.unwrap_or(if self.is_late() {
            ApprovalOutcome::Expired
        } else {
            ApprovalOutcome::Cancelled
        });
        if self.is_announced.load(Ordering::Relaxed) {
            let id = &self.new.id;
            self.published
                .notify_change(ApprovalChange::Closed { id, outcome });
        }
        let (Some(store), false) = (self.store.take(), self.is_closed) else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let id = std::mem::take(&mut self.new.id);
        let close = async move {
            if let Err(error) = store.resolve_approval(&id, outcome).await {
                tracing::warn!(%error, "approval row could not be closed");
            }
        };
        self.published.tasks.spawn_on(close, &runtime);
    }
}

fn format_remote_answer(given: &SubmittedDecision) -> String {
    let by = printable(&given.by);
    let by: String = by.split_whitespace().collect::<Vec<_>>().join(" ");
    let by: String = by.chars().take(MAX_NAME_CHARS).collect();
    let what = match given.answer {
        ApprovalAnswer::Once => "allowed once",
        ApprovalAnswer::Session => "allowed for this session",
        ApprovalAnswer::Always => "allowed from now on",
        ApprovalAnswer::Deny => "denied",
    };
    if by.is_empty() {
        return format!("Answered elsewhere: {what}.");
    }
    format!("Answered by {by}: {what}.")
}

/// Whether the process that made the request has ended.
pub fn is_owner_gone(approval: &Approval) -> bool {
    process::is_gone(approval.owner_pid, approval.owner_start)
}
