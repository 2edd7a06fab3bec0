//! Executes one run on this node: wakes its agent, follows its events, and resumes, requeues or fails it after an
//! interruption.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use super::{
    Handle, Runs,
    attempt::End,
    decisions::Waiting,
    ending::{self, TenantStop},
};
use crate::{
    ApprovalId, Code, Problem, RunId, TenantId,
    agents::Terms,
    shapes::{Approval, ApprovalState, RunError, RunStatus},
    state::{
        ApprovalQuery, NewEvent, Page, RunChange, RunRecord, RunUpdate, RunUpdated, StateError,
    },
};

const MOST_ATTEMPTS: u32 = 5;

/// How often a healthy agent may disconnect without a single event.
const MOST_FRUITLESS: u32 = 10;

/// Doubled after each disconnect.
const FIRST_REST: Duration = Duration::from_millis(50);

const LONGEST_REST: Duration = Duration::from_secs(5);

const DATABASE_REST: Duration = Duration::from_secs(2);

/// Executes a run until it has ended, is queued again, or the Hub stops.
pub(super) async fn carry_out(runs: &Arc<Runs>, record: RunRecord, handle: &Handle) {
    let tenant = record.run.tenant_id.clone();
    // An earlier process has started it on the agent.
    let is_inherited = record.agent_run.is_some();
    let _busy = runs.agents.enter(&tenant);
    let mut work = Work {
        runs,
        handle,
        id: record.run.run_id.clone(),
        tenant,
        record,
        waiting: Vec::new(),
        names: HashMap::new(),
        carried: Vec::new(),
        started_calls: 0,
        ended_calls: 0,
        is_overdue: false,
        is_inherited,
        began: Instant::now(),
        fruitless: 0,
    };
    loop {
        match work.carry_out().await {
            // It was ended or removed elsewhere.
            Ok(()) | Err(StateError::Conflict { .. } | StateError::NotFound { .. }) => return,
            Err(error) => tracing::warn!(run = %work.id, %error, "run paused: the database failed"),
        }
        tokio::select! {
            () = tokio::time::sleep(DATABASE_REST) => {}
            () = runs.closing.cancelled() => return,
        }
        if let Ok(Some(record)) = runs.state.run(&work.tenant, &work.id).await {
            work.record = record;
        }
    }
}

pub(super) struct Work<'a> {
    pub(super) runs: &'a Arc<Runs>,
    pub(super) handle: &'a Handle,
    pub(super) tenant: TenantId,
    pub(super) id: RunId,
    pub(super) record: RunRecord,
    pub(super) waiting: Vec<Waiting>,
    /// Approval ids by the agent's ids.
    pub(super) names: HashMap<String, ApprovalId>,
    /// Decisions of interrupted attempts that are still valid.
    pub(super) carried: Vec<Approval>,
    /// Tool calls of this attempt seen by this node.
    pub(super) started_calls: u32,
    pub(super) ended_calls: u32,
    pub(super) is_overdue: bool,
    /// An earlier process started it.
    is_inherited: bool,
    /// When this process started to execute it.
    began: Instant,
    /// Disconnects since the last event.
    pub(super) fruitless: u32,
}

impl Work<'_> {
    async fn carry_out(&mut self) -> Result<(), StateError> {
        if self.record.run.status.is_final() {
            return Ok(());
        }
        if self.record.run.status == RunStatus::Stopping {
            if let Some(cause) = self.record.run.error.clone() {
                let _ = self.handle.cause.set(cause);
            }
            self.handle.stop.cancel();
        }
        self.recall_approvals().await?;
        // Only a resumed run waits here. Its agent is started when there is a decision.
        if !self.waiting.is_empty() && !self.await_decisions().await? {
            return Ok(());
        }
        loop {
            let woken = tokio::select! {
                // A running agent has to be told of a stop, so this comes first.
                biased;
                woken = self.runs.agents.wake(&self.tenant) => woken,
                () = self.runs.closing.cancelled() => return Ok(()),
                () = self.handle.stop.cancelled() => return self.cancel().await,
            };
            let terms = match woken {
                Ok(terms) => terms,
                Err(_) if self.runs.closing.is_cancelled() => return Ok(()),
                Err(problem) => return self.give_up(&problem).await,
            };
            match self.attempt(&terms).await? {
                End::Over => return Ok(()),
                End::CutOff => return self.cut_off().await,
                End::Lost(_) if self.runs.closing.is_cancelled() => return Ok(()),
                End::Lost(reason) => {
                    self.fruitless += 1;
                    tracing::debug!(run = %self.id, %reason, "run event stream disconnected");
                    if self.fruitless > MOST_FRUITLESS {
                        return self.cut_off().await;
                    }
                    // If there were events, most likely only the connection failed.
                    if self.fruitless == 1 {
                        continue;
                    }
                    self.runs.agents.doubt(&self.tenant).await;
                    let rest = FIRST_REST * (1 << (self.fruitless - 2).min(10));
                    tokio::select! {
                        () = tokio::time::sleep(rest.min(LONGEST_REST)) => {}
                        () = self.runs.closing.cancelled() => return Ok(()),
                    }
                }
            }
        }
    }

    /// Loads the run's approvals from the database.
    async fn recall_approvals(&mut self) -> Result<(), StateError> {
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
        self.carried = state.approvals(&undelivered, &page).await?.items;
        self.carried
            .retain(|approval| approval.state == ApprovalState::Decided);
        self.waiting.clear();
        for approval in state.approvals(&of_run, &page).await?.items {
            let agent = state.agent_approval(&approval.approval_id).await?;
            if let Some(agent) = &agent {
                let id = approval.approval_id.clone();
                self.names.insert(agent.clone(), id);
            }
            if approval.state == ApprovalState::Pending {
                self.waiting.push(Waiting::new(&approval, agent));
            }
        }
        Ok(())
    }

    /// The agent lost the run: it is retried, unless a tool call may have had an effect.
    async fn cut_off(&mut self) -> Result<(), StateError> {
        if self.handle.stop.is_cancelled() {
            return self.cancel().await;
        }
        let (reason, what) = self.why_cut_off();
        let may_repeat = !self.record.called_tool || self.record.retry_interrupted;
        if !may_repeat || self.record.run.attempt >= MOST_ATTEMPTS {
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
        let why = Map::from_iter([
            ("reason".to_owned(), json!(reason)),
            ("message".to_owned(), json!(what)),
        ]);
        let updated = self.runs.state.requeue_run(&self.tenant, &self.id, why);
        let updated = updated.await?;
        self.runs.watchers.tell(&self.id, &updated.events);
        Ok(())
    }

    /// The cause of the interruption: a code and a message.
    fn why_cut_off(&self) -> (&'static str, String) {
        match self.runs.agents.death_since(&self.tenant, self.began) {
            Some(death) => ("agent_died", format!("the tenant's agent {death}")),
            None if self.is_inherited => {
                let (reason, what) = self.runs.previous_end.cause();
                (reason, what.to_owned())
            }
            None => (
                "agent_lost",
                "the tenant's agent lost the run, or was stopped".to_owned(),
            ),
        }
    }

    /// The agent cannot be started.
    async fn give_up(&mut self, problem: &Problem) -> Result<(), StateError> {
        match problem.reason {
            Some("tenant_blocked") => {
                let _ = self.handle.cause.set(TenantStop::Blocked.error());
                self.cancel().await
            }
            // Nobody else reports this for a tenant with an active run.
            _ if problem.code == Code::NotFound => {
                let _ = self.handle.cause.set(TenantStop::Deleted.error());
                self.cancel().await
            }
            Some("agent_stopped") => {
                let why = Map::from_iter([("reason".to_owned(), json!("agent_stopped"))]);
                let updated = self.runs.state.requeue_run(&self.tenant, &self.id, why);
                let updated = updated.await?;
                self.runs.watchers.tell(&self.id, &updated.events);
                Ok(())
            }
            reason => {
                let reason = reason.unwrap_or("agent_unavailable");
                self.fail_because(reason, "agent_unavailable", problem.message.clone())
                    .await
            }
        }
    }

    pub(super) async fn cancel(&mut self) -> Result<(), StateError> {
        let cause = self.handle.cause.get().cloned();
        let members = cause
            .as_ref()
            .map(|cause| ending::members(&cause.code, cause));
        let change = RunChange {
            status: Some(RunStatus::Cancelled),
            error: cause,
            ..RunChange::default()
        };
        self.end("run.cancelled", members.unwrap_or_default(), change)
            .await
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
        let members = ending::members(reason, &error);
        let change = RunChange {
            status: Some(RunStatus::Failed),
            error: Some(error),
            ..RunChange::default()
        };
        self.end("run.failed", members, change).await
    }

    async fn end(
        &mut self,
        name: &str,
        body: Map<String, Value>,
        change: RunChange,
    ) -> Result<(), StateError> {
        let update = RunUpdate {
            events: vec![NewEvent {
                event: name.to_owned(),
                body,
                agent_sequence: None,
            }],
            change,
            ..RunUpdate::default()
        };
        self.store(update).await.map(drop)
    }

    /// Stores an update. A change of status is dropped if somebody has set it to `stopping` since.
    pub(super) async fn store(&mut self, mut update: RunUpdate) -> Result<(), StateError> {
        let on_the_way = update.change.status.filter(|status| !status.is_final());
        if on_the_way.is_some() {
            update.only_from = vec![RunStatus::Running, RunStatus::WaitingForApproval];
        }
        let without = RunUpdate {
            only_from: Vec::new(),
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

    pub(super) fn time_left(&self, terms: &Terms) -> Duration {
        let limit = self
            .record
            .timeout_seconds
            .map_or(terms.longest_run, Duration::from_secs)
            .min(terms.longest_run);
        let begun = self.record.started_at.unwrap_or(self.record.run.created_at);
        let end = begun.after(limit);
        let left = end.millis() - crate::shapes::Time::now().millis();
        // A clock that was set back must not extend it.
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(limit)
    }
}
