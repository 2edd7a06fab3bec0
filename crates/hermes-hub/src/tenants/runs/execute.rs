//! Executes one run on this node: wakes its agent, follows its events, and resumes, requeues or fails it after an
//! interruption.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_protocol::RunEvent;

use super::{
    RunHandle, Runs, attempt::AttemptEnd, cancelled_event, decisions::PendingApproval, hub_event,
};
use crate::{
    ApprovalId, Problem, ProblemCode, RunId, TenantId,
    api_types::{Approval, ApprovalState, RunError, RunStatus},
    storage::{
        checkpoints::HOME_TOO_LARGE,
        state::{
            ApprovalQuery, Notice, Page, RunChange, RunRecord, RunUpdate, RunUpdated, StateError,
        },
    },
    tenants::{
        agents::AgentSpec,
        runs::tenant_stop::{PreviousEnd, TenantStop},
    },
};

const MAX_ATTEMPTS: u32 = 5;

/// How often a healthy agent may disconnect without a single event.
const MAX_EMPTY_ATTEMPTS: u32 = 10;

/// Doubled after each disconnect.
const INITIAL_BACKOFF: Duration = Duration::from_millis(50);

const MAX_BACKOFF: Duration = Duration::from_secs(5);

const DATABASE_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Executes a run until it has ended, is queued again, or the Hub stops.
pub(super) async fn execute_run(runs: &Arc<Runs>, record: RunRecord, handle: &RunHandle) {
    let tenant = record.run.tenant_id.clone();
    // An earlier process has started it on the agent.
    let is_inherited = record.agent_run.is_some();
    let _busy = runs.agents.keep_awake(&tenant);
    let mut work = ActiveRun {
        runs,
        handle,
        id: record.run.run_id.clone(),
        tenant,
        record,
        pending_approvals: Vec::new(),
        approval_ids: HashMap::new(),
        carried_decisions: Vec::new(),
        started_calls: 0,
        ended_calls: 0,
        has_timed_out: false,
        is_resumed: is_inherited,
        began_at: Instant::now(),
        empty_attempts: 0,
    };
    loop {
        match work.execute().await {
            // It was ended or removed elsewhere.
            Ok(()) | Err(StateError::Conflict { .. } | StateError::NotFound { .. }) => {
                let status = work.record.run.status;
                tracing::Span::current().record("hermes.run.status", status.as_str());
                return;
            }
            Err(error) => tracing::warn!(run = %work.id, %error, "run paused: the database failed"),
        }
        tokio::select! {
            () = tokio::time::sleep(DATABASE_RETRY_DELAY) => {}
            () = handle.leave.cancelled() => return,
        }
        if let Ok(Some(record)) = runs.state.run(&work.tenant, &work.id).await {
            work.record = record;
        }
    }
}

/// Whether what a run has changed in its tenant's home is stored.
pub(super) enum SavedHome {
    Saved,
    /// It will not be, until the home is smaller. The message says why.
    TooLarge(String),
}

pub(super) struct ActiveRun<'a> {
    pub(super) runs: &'a Arc<Runs>,
    pub(super) handle: &'a RunHandle,
    pub(super) tenant: TenantId,
    pub(super) id: RunId,
    pub(super) record: RunRecord,
    pub(super) pending_approvals: Vec<PendingApproval>,
    /// Approval ids by the agent's ids.
    pub(super) approval_ids: HashMap<String, ApprovalId>,
    /// Decisions of interrupted attempts that are still valid.
    pub(super) carried_decisions: Vec<Approval>,
    /// Tool calls of this attempt seen by this node.
    pub(super) started_calls: u32,
    pub(super) ended_calls: u32,
    pub(super) has_timed_out: bool,
    /// An earlier process started it.
    is_resumed: bool,
    /// When this process started to execute it.
    began_at: Instant,
    /// Disconnects since the last event.
    pub(super) empty_attempts: u32,
}

impl ActiveRun<'_> {
    async fn execute(&mut self) -> Result<(), StateError> {
        if self.record.run.status.is_final() {
            return Ok(());
        }
        if self.record.run.status == RunStatus::Stopping {
            if let Some(cause) = self.record.run.error.clone() {
                let _ = self.handle.cause.set(cause);
            }
            self.handle.stop.cancel();
        }
        self.load_approvals().await?;
        // Only a resumed run waits here. Its agent is started when there is a decision.
        if !self.pending_approvals.is_empty() && !self.await_decisions().await? {
            return Ok(());
        }
        loop {
            let woken = tokio::select! {
                // A running agent has to be told of a stop, so this comes first.
                biased;
                woken = self.runs.agents.wake(&self.tenant) => woken,
                () = self.handle.leave.cancelled() => return Ok(()),
                () = self.handle.stop.cancelled() => return self.cancel().await,
            };
            let spec = match woken {
                Ok(spec) => spec,
                Err(_) if self.handle.leave.is_cancelled() => return Ok(()),
                Err(problem) => return self.handle_missing_agent(&problem).await,
            };
            match self.follow_events(&spec).await? {
                AttemptEnd::Finished => return Ok(()),
                AttemptEnd::Interrupted => return self.handle_interruption().await,
                AttemptEnd::Disconnected(_) if self.handle.leave.is_cancelled() => return Ok(()),
                AttemptEnd::Disconnected(reason) => {
                    self.empty_attempts += 1;
                    tracing::debug!(run = %self.id, %reason, "run event stream disconnected");
                    if self.empty_attempts > MAX_EMPTY_ATTEMPTS {
                        return self.handle_interruption().await;
                    }
                    // If there were events, most likely only the connection failed.
                    if self.empty_attempts == 1 {
                        continue;
                    }
                    self.runs.agents.report_unresponsive(&self.tenant).await;
                    let rest = INITIAL_BACKOFF * (1 << (self.empty_attempts - 2).min(10));
                    tokio::select! {
                        () = tokio::time::sleep(rest.min(MAX_BACKOFF)) => {}
                        () = self.handle.leave.cancelled() => return Ok(()),
                    }
                }
            }
        }
    }

    /// Whether another node has started it on its own agent.
    pub(super) fn is_of_lost_node(&self) -> bool {
        self.is_resumed && self.handle.previous_end == PreviousEnd::NodeLost
    }

    /// Loads the run's approvals from the database.
    async fn load_approvals(&mut self) -> Result<(), StateError> {
        let page = Page::first(500);
        let state = &self.runs.state;
        let of_run = ApprovalQuery {
            run: Some(self.id.clone()),
            ..ApprovalQuery::default()
        };
        let undelivered = ApprovalQuery {
            undelivered: true,
            ..of_run.clone()
        };
        self.carried_decisions = state.approvals(&undelivered, &page).await?.items;
        self.carried_decisions
            .retain(|approval| approval.state == ApprovalState::Decided);
        self.pending_approvals.clear();
        for approval in state.approvals(&of_run, &page).await?.items {
            let agent = state.agent_approval(&approval.approval_id).await?;
            if let Some(agent) = &agent {
                let id = approval.approval_id.clone();
                self.approval_ids.insert(agent.clone(), id);
            }
            if approval.state == ApprovalState::Pending {
                self.pending_approvals
                    .push(PendingApproval::new(&approval, agent));
            }
        }
        Ok(())
    }

    /// The agent lost the run: it is retried, unless a tool call may have had an effect.
    async fn handle_interruption(&mut self) -> Result<(), StateError> {
        if self.handle.stop.is_cancelled() {
            return self.cancel().await;
        }
        let (reason, what) = self.interruption_cause();
        let may_repeat = !self.record.called_tool || self.record.retry_interrupted;
        if !may_repeat || self.record.run.attempt >= MAX_ATTEMPTS {
            let attempts = self.record.run.attempt;
            let message = if may_repeat {
                format!("the run was cut off {attempts} times; the last time {what}")
            } else {
                format!(
                    "the run was cut off after it had called a tool: {what}; set `retryInterrupted` to let such runs \
                     begin anew"
                )
            };
            return self.fail_because(reason, "interrupted", message).await;
        }
        self.requeue(reason, Some(what)).await
    }

    async fn requeue(&self, reason: &str, message: Option<String>) -> Result<(), StateError> {
        let state = &self.runs.state;
        let updated = state.requeue_run(&self.tenant, &self.id, reason, message);
        let updated = updated.await?;
        self.runs.watchers.publish(&self.id, &updated.events);
        self.runs.state.notify(Notice::Run(self.id.clone()));
        self.runs.state.notify(Notice::Work);
        Ok(())
    }

    /// The cause of the interruption: a code and a message.
    fn interruption_cause(&self) -> (&'static str, String) {
        match self.runs.agents.exit_since(&self.tenant, self.began_at) {
            Some(exit) => ("agent_died", format!("the tenant's agent {exit}")),
            None if self.is_resumed => {
                let (reason, what) = self.handle.previous_end.cause();
                (reason, what.to_owned())
            }
            None => (
                "agent_lost",
                "the tenant's agent lost the run, or was stopped".to_owned(),
            ),
        }
    }

    /// The agent cannot be started.
    async fn handle_missing_agent(&mut self, problem: &Problem) -> Result<(), StateError> {
        match problem.reason {
            Some("tenant_blocked") => {
                let _ = self.handle.cause.set(TenantStop::Blocked.error());
                self.cancel().await
            }
            // Nobody else reports this for a tenant with an active run.
            _ if problem.code == ProblemCode::NotFound => {
                let _ = self.handle.cause.set(TenantStop::Deleted.error());
                self.cancel().await
            }
            Some("agent_stopped") => self.requeue("agent_stopped", None).await,
            // The database or object storage is away, or the lease ends: the run is gone on with here or elsewhere.
            None | Some("lease_elsewhere") if problem.code == ProblemCode::Unavailable => {
                Err(StateError::Unavailable(problem.message.clone()))
            }
            reason => {
                let reason = reason.unwrap_or("agent_unavailable");
                self.fail_because(reason, "agent_unavailable", problem.message.clone())
                    .await
            }
        }
    }

    /// Stores what the run has changed in its tenant's home, before anybody hears that it has ended.
    pub(super) async fn save_home(&self) -> Result<SavedHome, StateError> {
        let leases = self.runs.agents.leases();
        match leases.save_home(&self.tenant).await {
            Ok(()) => Ok(SavedHome::Saved),
            Err(problem) if problem.reason == Some(HOME_TOO_LARGE) => {
                Ok(SavedHome::TooLarge(problem.message))
            }
            Err(problem) => Err(StateError::Unavailable(problem.message)),
        }
    }

    pub(super) async fn cancel(&mut self) -> Result<(), StateError> {
        let cause = self.handle.cause.get().cloned();
        let event = cancelled_event(cause.clone());
        let change = RunChange {
            status: Some(RunStatus::Cancelled),
            error: cause,
            ..RunChange::default()
        };
        self.end(event, change).await
    }

    pub(super) async fn fail(&mut self, code: &str, message: String) -> Result<(), StateError> {
        self.fail_because(code, code, message).await
    }

    /// The same, with a reason that differs from the error code.
    async fn fail_because(
        &mut self,
        reason: &str,
        code: &str,
        message: String,
    ) -> Result<(), StateError> {
        let error = RunError {
            code: code.to_owned(),
            message,
        };
        let event = RunEvent::Failed {
            error: error.clone().into(),
            reason: Some(reason.to_owned()),
            usage: None,
            model: None,
        };
        let change = RunChange {
            status: Some(RunStatus::Failed),
            error: Some(error),
            ..RunChange::default()
        };
        self.end(event, change).await
    }

    async fn end(&mut self, event: RunEvent, change: RunChange) -> Result<(), StateError> {
        // It has not succeeded anyway; the tenant's conditions tell if its home is too large.
        self.save_home().await?;
        let update = RunUpdate {
            events: vec![hub_event(event)],
            change,
            ..RunUpdate::default()
        };
        self.store(update).await.map(drop)
    }

    /// Stores an update. A change of status is dropped if somebody has set it to `stopping` since.
    pub(super) async fn store(&mut self, mut update: RunUpdate) -> Result<(), StateError> {
        let on_the_way = update.change.status.filter(|status| !status.is_final());
        if on_the_way.is_some() {
            update.allowed_from = vec![RunStatus::Running, RunStatus::WaitingForApproval];
        }
        let without = RunUpdate {
            allowed_from: Vec::new(),
            change: RunChange {
                status: update.change.status.filter(|status| status.is_final()),
                ..update.change.clone()
            },
            ..update.clone()
        };
        let stored: Result<RunUpdated, StateError> =
            match self.runs.update(&self.tenant, &self.id, update).await {
                Err(StateError::Conflict { .. }) if on_the_way.is_some() => {
                    self.runs.update(&self.tenant, &self.id, without).await
                }
                stored => stored,
            };
        self.record = stored?.record;
        Ok(())
    }

    pub(super) async fn time_left(&self, spec: &AgentSpec) -> Duration {
        // The policy may have changed a moment ago, and the agent works with what it was told last.
        let current = self.runs.agents.tenant_lookup().agent_spec(&self.tenant);
        let max_run_duration = current
            .await
            .map_or(spec.max_run_duration, |spec| spec.max_run_duration);
        let limit = self
            .record
            .timeout_seconds
            .map_or(max_run_duration, Duration::from_secs)
            .min(max_run_duration);
        let begun = self.record.started_at.unwrap_or(self.record.run.created_at);
        let end = begun.after(limit);
        let left = end.millis() - crate::api_types::Time::now().millis();
        // A clock that was set back must not extend it.
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(limit)
    }
}
