//! Approvals: the first decision wins, in the database; the task of the run delivers it to the agent. After the timeout
//! an approval is denied.

use std::{sync::Arc, time::Duration};

use hermes_protocol::{ApprovalChoice, ApprovalDecision, FormAnswer, RequestedForm};

use super::{Runs, attempt::AttemptEnd};
use crate::{
    ApprovalId, Problem, ProblemCode, RunId, TenantId,
    api_types::{Approval, ApprovalState, Time, ids::AgentRunId},
    storage::{
        audit::NewAuditEntry,
        state::{
            ApprovalQuery, CarriedDecision, NewApproval, NewDecision, Notice, Page, RunChange,
            RunUpdate, StateError,
        },
    },
    tenants::{runs::execute::ActiveRun, runtime::RuntimeError},
};

/// How often a waiting run checks for decisions made on another node.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

const MAX_TEXT_CHARS: usize = 16 * 1024;
/// A larger form is not shown: nobody fills it in.
const MAX_FORM_BYTES: usize = 128 * 1024;

#[derive(Debug, Clone)]
pub struct DecisionRequest {
    pub choice: ApprovalChoice,
    /// Which approval; the oldest that waits, if absent.
    pub approval_id: Option<ApprovalId>,
    /// All pending approvals.
    pub all: bool,
    pub reason: Option<String>,
    /// What was made of a form.
    pub answer: Option<FormAnswer>,
    pub by: String,
}

pub(super) struct PendingApproval {
    pub(super) id: ApprovalId,
    /// The agent's id.
    pub(super) agent_id: Option<String>,
    expires_at: Option<Time>,
}

impl PendingApproval {
    pub(super) fn new(approval: &Approval, agent: Option<String>) -> Self {
        Self {
            id: approval.approval_id.clone(),
            agent_id: agent,
            expires_at: approval.expires_at,
        }
    }

    pub(super) fn from_new(asked: &NewApproval) -> Self {
        Self {
            id: asked.id.clone(),
            agent_id: asked.agent_id.clone(),
            expires_at: asked.expires_at,
        }
    }
}

impl Runs {
    /// Decides pending approvals of a run. Returns those that were decided.
    pub async fn decide(
        &self,
        tenant: &TenantId,
        run: &RunId,
        answer: DecisionRequest,
        entry: NewAuditEntry,
    ) -> Result<Vec<Approval>, Problem> {
        if self.state.run(tenant, run).await?.is_none() {
            return Err(Problem::not_found("there is no such run"));
        }
        let query = ApprovalQuery {
            run: Some(run.clone()),
            pending: true,
            ..ApprovalQuery::default()
        };
        let mut pending = self.state.approvals(&query, &Page::first(500)).await?.items;
        if let Some(wanted) = &answer.approval_id {
            pending.retain(|approval| approval.approval_id == *wanted);
        } else if !answer.all {
            pending.truncate(1);
        }
        if answer.all {
            // A form that needs answers needs a decision of its own.
            pending.retain(|approval| check_answer(approval, &answer).is_ok());
        }
        if pending.is_empty() {
            return Err(not_pending());
        }
        for approval in &pending {
            check_answer(approval, &answer)?;
        }
        let mut entry = entry;
        let mut decided = Vec::new();
        for approval in pending {
            let decision = NewDecision {
                choice: answer.choice,
                by: Some(answer.by.clone()),
                reason: answer.reason.clone(),
                answer: answer.answer.clone(),
            };
            let done = self
                .state
                .decide(&approval.approval_id, decision, entry.clone())
                .await;
            match done {
                Ok(approval) => {
                    self.count_decision(&approval);
                    decided.push(approval);
                }
                // Another decision was first. With `all`, the others still have to be decided.
                Err(StateError::Conflict { .. }) if answer.all => {}
                Err(StateError::Conflict { .. }) => return Err(not_pending()),
                Err(error) => return Err(error.into()),
            }
            // An idempotency key takes effect once.
            entry.idempotency = None;
        }
        if decided.is_empty() {
            return Err(not_pending());
        }
        if let Some(handle) = self.handle(run) {
            handle.decision_made.notify_one();
        }
        self.state.notify(Notice::Run(run.clone()));
        Ok(decided)
    }

    /// Decides an approval by its id.
    pub async fn decide_approval(
        &self,
        id: &ApprovalId,
        answer: DecisionRequest,
        entry: NewAuditEntry,
    ) -> Result<Approval, Problem> {
        let Some(approval) = self.state.approval(id).await? else {
            return Err(Problem::not_found("there is no such approval"));
        };
        let answer = DecisionRequest {
            approval_id: Some(id.clone()),
            all: false,
            ..answer
        };
        let decided = self
            .decide(&approval.tenant_id, &approval.run_id, answer, entry)
            .await?;
        decided.into_iter().next().ok_or_else(not_pending)
    }

    fn count_decision(&self, approval: &Approval) {
        let label = format!("state=\"{}\"", approval.state);
        let metrics = self.agents.metrics();
        metrics.increment("approvals_total", label, 1);
    }
}

fn not_pending() -> Problem {
    Problem::precondition(
        "nothing waits for that decision; it was made already, or the run has ended",
    )
    .with_reason("approval_not_pending")
}

/// A decision is final: what the form does not take is refused before.
fn check_answer(approval: &Approval, request: &DecisionRequest) -> Result<(), Problem> {
    let unprocessable = |message: String| Problem::new(ProblemCode::Unprocessable, message);
    match (&approval.form, &request.answer) {
        (None, Some(_)) => {
            let message = "this approval is not a form; leave `content` and `cancel` out";
            Err(unprocessable(message.to_owned()))
        }
        (Some(form), Some(FormAnswer::Content(_))) if form.url.is_some() => {
            let message = "this is a page to open, which has no fields: leave `content` out";
            Err(unprocessable(message.to_owned()))
        }
        (Some(form), Some(FormAnswer::Content(content))) => form.check(content).map_err(|wrong| {
            let field = format!("content.{}", wrong.field);
            unprocessable(wrong.to_string()).with_detail(field, wrong.reason)
        }),
        // Without defaults for all that it needs, a yes says too little.
        (Some(_), None) if !approval.choices.contains(&request.choice) => {
            let message = "this is a form: fill it in with `content`, or choose `deny`";
            Err(unprocessable(message.to_owned()).with_detail("content", "is missing"))
        }
        _ => Ok(()),
    }
}

/// What an agent says about an approval.
pub(super) struct ReportedApproval<'a> {
    pub(super) agent_id: &'a str,
    pub(super) command: &'a str,
    pub(super) description: &'a str,
    pub(super) choices: &'a [ApprovalChoice],
    pub(super) form: Option<&'a RequestedForm>,
}

pub(super) fn new_approval(
    asked: &ReportedApproval<'_>,
    timeout: Duration,
) -> Result<NewApproval, StateError> {
    let text = |text: &str| text.chars().take(MAX_TEXT_CHARS).collect::<String>();
    let size =
        |form: &RequestedForm| serde_json::to_string(form).map_or(usize::MAX, |text| text.len());
    let form = asked.form.filter(|form| size(form) <= MAX_FORM_BYTES);
    Ok(NewApproval {
        id: ApprovalId::random().map_err(StateError::broken)?,
        agent_id: Some(text(asked.agent_id)),
        command: text(asked.command),
        description: text(asked.description),
        choices: asked.choices.to_vec(),
        form: form.cloned(),
        expires_at: Some(Time::now().after(timeout)),
        carried: None,
    })
}

fn tool_called_update(called: bool) -> RunUpdate {
    RunUpdate {
        change: RunChange {
            called_tool: Some(called),
            ..RunChange::default()
        },
        ..RunUpdate::default()
    }
}

impl ActiveRun<'_> {
    /// Time until an approval expires, or the next check for decisions made elsewhere.
    pub(super) fn time_until_poll(&self) -> Duration {
        let now = Time::now().millis();
        let first = self
            .pending_approvals
            .iter()
            .filter_map(|waiting| waiting.expires_at)
            .min();
        let left = first.map_or(i64::MAX, |first| first.millis() - now);
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(POLL_INTERVAL)
    }

    /// Delivers decisions to the agent, and denies expired approvals.
    pub(super) async fn deliver_decisions(
        &mut self,
        run: &AgentRunId,
    ) -> Result<Option<AttemptEnd>, StateError> {
        let runtime = Arc::clone(self.runs.agents.runtime());
        let mut at = 0;
        while let Some(waiting) = self.pending_approvals.get(at) {
            let Some(approval) = self.load_decision(&waiting.id, waiting.expires_at).await? else {
                at += 1;
                continue;
            };
            let answer = self.runs.state.form_answer(&waiting.id).await?;
            let decision = ApprovalDecision {
                approval_id: waiting.agent_id.clone(),
                reason: approval.reason.clone(),
                ..ApprovalDecision::new(approval.choice.unwrap_or(ApprovalChoice::Deny))
            }
            .with_form_answer(answer);
            let had_called = self.record.called_tool;
            if decision.choice != ApprovalChoice::Deny {
                // From here on a tool may have an effect.
                self.store(tool_called_update(true)).await?;
            }
            match runtime.decide(&self.tenant, run, &decision).await {
                Err(error @ (RuntimeError::Unreachable(_) | RuntimeError::StartFailed(_))) => {
                    return Ok(Some(AttemptEnd::Disconnected(error.to_string())));
                }
                Err(error) => {
                    tracing::debug!(run = %self.id, %error, "agent did not accept a decision");
                    // The decision was not delivered, so nothing was done and the run may be retried.
                    if self.record.called_tool != had_called {
                        self.store(tool_called_update(had_called)).await?;
                    }
                }
                // Any other decision stays valid if the run is retried.
                Ok(()) if decision.choice == ApprovalChoice::Once => {
                    self.runs
                        .state
                        .mark_delivered(&approval.approval_id)
                        .await?;
                }
                Ok(()) => {}
            }
            self.pending_approvals.remove(at);
        }
        Ok(None)
    }

    /// An approval if it is decided; an expired one is denied.
    async fn load_decision(
        &self,
        id: &ApprovalId,
        expires_at: Option<Time>,
    ) -> Result<Option<Approval>, StateError> {
        let state = &self.runs.state;
        let approval = state.approval(id).await?;
        let is_pending = approval
            .as_ref()
            .is_some_and(|approval| approval.state == ApprovalState::Pending);
        if !is_pending {
            return Ok(approval);
        }
        if expires_at.is_none_or(|end| end > Time::now()) {
            return Ok(None);
        }
        let denial = NewDecision {
            choice: ApprovalChoice::Deny,
            by: None,
            reason: Some("nobody decided in time".into()),
            answer: None,
        };
        match state
            .decide(id, denial, self.audit_entry("approval_timeout", id))
            .await
        {
            Ok(approval) => {
                self.runs.count_decision(&approval);
                Ok(Some(approval))
            }
            Err(StateError::Conflict { .. }) => state.approval(id).await,
            Err(error) => Err(error),
        }
    }

    fn audit_entry(&self, action: &str, id: &ApprovalId) -> NewAuditEntry {
        NewAuditEntry::by_hub(action)
            .for_tenant(&self.tenant)
            .with_target(id.as_str())
    }

    /// The agent reports that an approval is over: it was decided, or the agent did not wait. The agent's id is replaced
    /// by the Hub's.
    pub(super) async fn close_approval(
        &mut self,
        approval_id: &mut String,
        choice: ApprovalChoice,
    ) -> Result<(), StateError> {
        let Some(id) = self.approval_ids.get(approval_id).cloned() else {
            return Ok(());
        };
        let decision = NewDecision {
            choice,
            by: None,
            reason: None,
            answer: None,
        };
        let entry = self.audit_entry("approval_ended", &id);
        match self.runs.state.decide(&id, decision, entry).await {
            // Decided earlier, or requested and decided before it was stored.
            Ok(_) | Err(StateError::Conflict { .. } | StateError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        self.pending_approvals.retain(|waiting| waiting.id != id);
        *approval_id = id.to_string();
        Ok(())
    }

    /// A decision of an interrupted attempt on the same command is valid for this one. It is stored with the approval,
    /// so that nobody is asked again.
    pub(super) fn carry_decision(&mut self, asked: &NewApproval) -> Option<CarriedDecision> {
        let same = |earlier: &Approval| earlier.command == asked.command;
        let at = self.carried_decisions.iter().position(same)?;
        Some(CarriedDecision {
            from: self.carried_decisions.remove(at).approval_id,
            entry: self.audit_entry("approval_carried", &asked.id),
        })
    }

    /// Waits without an agent until everything is decided. Returns false if the run must not continue.
    pub(super) async fn await_decisions(&mut self) -> Result<bool, StateError> {
        loop {
            let mut is_open = false;
            for waiting in &self.pending_approvals {
                is_open |= self
                    .load_decision(&waiting.id, waiting.expires_at)
                    .await?
                    .is_none();
            }
            if !is_open {
                return Ok(true);
            }
            tokio::select! {
                () = self.handle.decision_made.notified() => {}
                () = tokio::time::sleep(self.time_until_poll()) => {}
                () = self.handle.leave.cancelled() => return Ok(false),
                () = self.handle.stop.cancelled() => {
                    self.cancel().await?;
                    return Ok(false);
                }
            }
        }
    }
}
