//! Approvals: the first decision wins, in the database; the task of the run delivers it to the agent. After the timeout
//! an approval is denied.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::{Runs, attempt::End, carry_out::Work};
use crate::{
    ApprovalId, Problem, RunId, TenantId,
    audit::NewEntry,
    runtime::{AgentRun, Decision, RuntimeError},
    shapes::{Approval, ApprovalState, Time},
    state::{ApprovalQuery, Carried, Choice, NewApproval, Page, RunChange, RunUpdate, StateError},
};

/// How often a waiting run checks for decisions made on another node.
const ROUND: Duration = Duration::from_secs(2);

const LONGEST: usize = 16 * 1024;

#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// `once`, `session`, `always` or `deny`; `approve`, `approved` and `allow` mean `once`.
    pub choice: String,
    /// Which approval; the oldest that waits, if absent.
    pub approval_id: Option<ApprovalId>,
    /// All pending approvals.
    pub all: bool,
    pub reason: Option<String>,
    pub by: String,
}

pub(super) struct Waiting {
    pub(super) id: ApprovalId,
    /// The agent's id.
    pub(super) agent: Option<String>,
    expires_at: Option<Time>,
}

impl Waiting {
    pub(super) fn new(approval: &Approval, agent: Option<String>) -> Self {
        Self {
            id: approval.approval_id.clone(),
            agent,
            expires_at: approval.expires_at,
        }
    }

    pub(super) fn of_new(asked: &NewApproval) -> Self {
        Self {
            id: asked.id.clone(),
            agent: asked.agent_id.clone(),
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
        answer: Answer,
        entry: NewEntry,
    ) -> Result<Vec<Approval>, Problem> {
        let choice = normalized(&answer.choice)?;
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
        if pending.is_empty() {
            return Err(not_pending());
        }
        let mut entry = entry;
        let mut decided = Vec::new();
        for approval in pending {
            let choice = Choice {
                choice: choice.to_owned(),
                by: Some(answer.by.clone()),
                reason: answer.reason.clone(),
            };
            let done = self
                .state
                .decide(&approval.approval_id, choice, entry.clone())
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
            handle.decided.notify_one();
        }
        Ok(decided)
    }

    /// Decides an approval by its id.
    pub async fn decide_approval(
        &self,
        id: &ApprovalId,
        answer: Answer,
        entry: NewEntry,
    ) -> Result<Approval, Problem> {
        let Some(approval) = self.state.approval(id).await? else {
            return Err(Problem::not_found("there is no such approval"));
        };
        let answer = Answer {
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
        metrics.count("approvals_total", label, 1);
    }
}

fn not_pending() -> Problem {
    Problem::precondition(
        "nothing waits for that decision; it was made already, or the run has ended",
    )
    .because("approval_not_pending")
}

fn normalized(choice: &str) -> Result<&'static str, Problem> {
    match choice {
        "once" | "approve" | "approved" | "allow" => Ok("once"),
        "session" => Ok("session"),
        "always" => Ok("always"),
        "deny" => Ok("deny"),
        _ => {
            let message = "`choice` is `once`, `session`, `always` or `deny`";
            Err(Problem::invalid(message).at("choice", "invalid"))
        }
    }
}

pub(super) fn new_approval(
    members: &Map<String, Value>,
    timeout: Duration,
) -> Result<NewApproval, StateError> {
    let text = |member: &str| {
        let text = members.get(member).and_then(Value::as_str);
        text.map(|text| text.chars().take(LONGEST).collect::<String>())
    };
    Ok(NewApproval {
        id: ApprovalId::random().map_err(StateError::broken)?,
        agent_id: text("approvalId"),
        command: text("command").unwrap_or_default(),
        description: text("description").unwrap_or_default(),
        expires_at: Some(Time::now().after(timeout)),
        carried: None,
    })
}

fn called_tool(called: bool) -> RunUpdate {
    RunUpdate {
        change: RunChange {
            called_tool: Some(called),
            ..RunChange::default()
        },
        ..RunUpdate::default()
    }
}

impl Work<'_> {
    /// Time until an approval expires, or the next check for decisions made elsewhere.
    pub(super) fn until_next_look(&self) -> Duration {
        let now = Time::now().millis();
        let first = self
            .waiting
            .iter()
            .filter_map(|waiting| waiting.expires_at)
            .min();
        let left = first.map_or(i64::MAX, |first| first.millis() - now);
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(ROUND)
    }

    /// Delivers decisions to the agent, and denies expired approvals.
    pub(super) async fn deliver_decisions(
        &mut self,
        run: &AgentRun,
    ) -> Result<Option<End>, StateError> {
        let runtime = Arc::clone(self.runs.agents.runtime());
        let mut at = 0;
        while let Some(waiting) = self.waiting.get(at) {
            let Some(approval) = self.decided(&waiting.id, waiting.expires_at).await? else {
                at += 1;
                continue;
            };
            let decision = Decision {
                choice: approval.choice.clone().unwrap_or_else(|| "deny".into()),
                approval_id: waiting.agent.clone(),
                all: false,
                reason: approval.reason.clone(),
            };
            let had_called = self.record.called_tool;
            if decision.choice != "deny" {
                // From here on a tool may have an effect.
                self.store(called_tool(true)).await?;
            }
            match runtime.decide(&self.tenant, run, &decision).await {
                Err(error @ (RuntimeError::Unreachable(_) | RuntimeError::NoStart(_))) => {
                    return Ok(Some(End::Lost(error.to_string())));
                }
                Err(error) => {
                    tracing::debug!(run = %self.id, %error, "agent did not accept a decision");
                    // The decision was not delivered, so nothing was done and the run may be retried.
                    if self.record.called_tool != had_called {
                        self.store(called_tool(had_called)).await?;
                    }
                }
                // Any other decision stays valid if the run is retried.
                Ok(()) if decision.choice == "once" => {
                    self.runs
                        .state
                        .mark_delivered(&approval.approval_id)
                        .await?;
                }
                Ok(()) => {}
            }
            self.waiting.remove(at);
        }
        Ok(None)
    }

    /// An approval if it is decided; an expired one is denied.
    async fn decided(
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
        let choice = Choice {
            choice: "deny".into(),
            by: None,
            reason: Some("nobody decided in time".into()),
        };
        match state
            .decide(id, choice, self.entry("approval_timeout", id))
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

    fn entry(&self, action: &str, id: &ApprovalId) -> NewEntry {
        NewEntry::by_hub(action).of(&self.tenant).to(id.as_str())
    }

    /// The agent reports that an approval is over: it was decided, or the agent did not wait.
    pub(super) async fn settle_approval(
        &mut self,
        members: &mut Map<String, Value>,
    ) -> Result<(), StateError> {
        let agent = members.get("approvalId").and_then(Value::as_str);
        let Some(id) = agent.and_then(|agent| self.names.get(agent)).cloned() else {
            return Ok(());
        };
        let choice = members.get("choice").and_then(Value::as_str);
        let choice = Choice {
            choice: choice.unwrap_or("deny").to_owned(),
            by: None,
            reason: None,
        };
        let entry = self.entry("approval_ended", &id);
        match self.runs.state.decide(&id, choice, entry).await {
            // Decided earlier, or requested and decided before it was stored.
            Ok(_) | Err(StateError::Conflict { .. } | StateError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        self.waiting.retain(|waiting| waiting.id != id);
        members.insert("approvalId".into(), json!(id));
        Ok(())
    }

    /// A decision of an interrupted attempt on the same command is valid for this one. It is stored with the approval,
    /// so that nobody is asked again.
    pub(super) fn carry(&mut self, asked: &NewApproval) -> Option<Carried> {
        let same = |earlier: &Approval| earlier.command == asked.command;
        let at = self.carried.iter().position(same)?;
        Some(Carried {
            from: self.carried.remove(at).approval_id,
            entry: self.entry("approval_carried", &asked.id),
        })
    }

    /// Waits without an agent until everything is decided. Returns false if the run must not continue.
    pub(super) async fn await_decisions(&mut self) -> Result<bool, StateError> {
        loop {
            let mut is_open = false;
            for waiting in &self.waiting {
                is_open |= self
                    .decided(&waiting.id, waiting.expires_at)
                    .await?
                    .is_none();
            }
            if !is_open {
                return Ok(true);
            }
            tokio::select! {
                () = self.handle.decided.notified() => {}
                () = tokio::time::sleep(self.until_next_look()) => {}
                () = self.runs.closing.cancelled() => return Ok(false),
                () = self.handle.stop.cancelled() => {
                    self.cancel().await?;
                    return Ok(false);
                }
            }
        }
    }
}
