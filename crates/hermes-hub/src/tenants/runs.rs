//! Runs: added to a tenant's queue, executed by its agent, followed by any number of watchers.
//!
//! Whatever a client was told is stored. The queue, the runs and their events are in the database; an agent has only
//! its own journal. A run is started under its own id, and its events are resumed after the last stored one, so that
//! nothing happens or is sent twice, whatever process is killed in between.
//!
//! ```text
//! create --> queue --dispatch--> execute (one task per run) --> database --> watchers
//!                                   |  ^ events
//!                                   v  |
//!                                 Runtime
//! ```

mod attempt;
mod decisions;
mod dispatch;
mod event_writer;
mod execute;
mod handover;
mod request;
mod tenant_stop;
mod watcher;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use hermes_config::sync::Mutex;
use hermes_protocol::RunEvent;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

pub(super) use self::request::add_trace;
pub use self::{decisions::DecisionRequest, request::RunRequest};
pub use crate::tenants::runs::{
    tenant_stop::{PreviousEnd, TenantStop},
    watcher::{RunEventStream, RunStreamItem},
};
use crate::{
    JobId, Problem, RunId, TenantId,
    api_types::{Run, RunError, RunStatus, RunTrigger},
    storage::{
        audit::NewAuditEntry,
        state::{
            NewEvent, NewRun, Notice, Page, RunChange, RunQuery, RunRecord, RunUpdate, RunUpdated,
            State, StateError,
        },
    },
    tenants::{agents::Agents, runs::watcher::Watchers},
};

/// How many recent runs of a job are checked to see whether one is active.
const RECENT_RUNS: u32 = 5;

pub struct Runs {
    state: Arc<dyn State>,
    agents: Arc<Agents>,
    previous_end: PreviousEnd,
    watchers: Watchers,
    /// Runs that have a task on this node.
    active: Mutex<HashMap<RunId, Arc<RunHandle>>>,
    queue_changed: Notify,
    /// Begins no more runs: the node is drained.
    is_draining: AtomicBool,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// Controls the task of a run.
#[derive(Debug)]
struct RunHandle {
    tenant: TenantId,
    /// How the process ended that worked on it before.
    previous_end: PreviousEnd,
    /// Another process goes on with it: this one leaves it as it is. Also cancelled when the Hub stops.
    leave: CancellationToken,
    /// Cancelled at the end of the task.
    done: CancellationToken,
    stop: CancellationToken,
    /// Why, unless somebody stopped this run itself. Set before `stop` is cancelled.
    cause: OnceLock<RunError>,
    decision_made: Notify,
}

impl Runs {
    /// Resumes runs of an earlier process and starts dispatching. Call it inside a tokio runtime.
    pub async fn start(
        state: Arc<dyn State>,
        agents: Arc<Agents>,
        previous_end: PreviousEnd,
    ) -> Result<Arc<Self>, StateError> {
        let runs = Arc::new(Self {
            state,
            agents,
            previous_end,
            watchers: Watchers::default(),
            active: Mutex::default(),
            queue_changed: Notify::new(),
            is_draining: AtomicBool::new(false),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        });
        // Where other nodes work, another one may have claimed them since: they come with their leases.
        if !runs.agents.leases().is_shared() {
            for record in runs.state.claimed_runs().await? {
                runs.spawn_run(record, previous_end);
            }
        }
        let dispatching = Arc::clone(&runs);
        runs.tasks
            .spawn(async move { dispatching.dispatch_queues().await });
        Ok(runs)
    }

    /// Adds a run to its tenant's queue.
    pub async fn create(
        &self,
        tenant: &TenantId,
        request: RunRequest,
        trigger: RunTrigger,
        entry: NewAuditEntry,
    ) -> Result<Run, Problem> {
        let run = NewRun {
            id: new_run_id()?,
            tenant: tenant.clone(),
            trigger,
            job: None,
            metadata: request.metadata.clone(),
            timeout_seconds: request.timeout_seconds,
            retry_interrupted: request.retry_interrupted,
            request: request.into_stored()?,
        };
        self.enqueue(run, entry).await
    }

    /// Runs a job now, whatever its schedule is. A problem if it is already running.
    pub async fn run_job(
        &self,
        tenant: &TenantId,
        job: &JobId,
        entry: NewAuditEntry,
    ) -> Result<Run, Problem> {
        if self.is_job_active(tenant, job).await? {
            let message = "the job is running; wait for its end or stop that run";
            return Err(Problem::precondition(message).with_reason("already_running"));
        }
        let run = job_run(tenant, job)?;
        self.enqueue(run, entry).await
    }

    async fn enqueue(&self, mut run: NewRun, entry: NewAuditEntry) -> Result<Run, Problem> {
        request::add_trace(&mut run.request);
        let depth = self
            .agents
            .tenant_lookup()
            .agent_spec(&run.tenant)
            .await?
            .queue_depth;
        let run = self.state.create_run(run, depth, entry).await?;
        self.notify_queues();
        self.agents.leases().look_for_work();
        self.state.notify(Notice::Work);
        Ok(run)
    }

    /// Whether a run of a job is queued or running.
    pub async fn is_job_active(&self, tenant: &TenantId, job: &JobId) -> Result<bool, StateError> {
        let query = RunQuery {
            tenant: Some(tenant.clone()),
            job: Some(job.clone()),
            ..RunQuery::default()
        };
        let recent = self.state.runs(&query, &Page::first(RECENT_RUNS)).await?;
        Ok(recent.items.iter().any(|run| !run.status.is_final()))
    }

    /// Wakes the dispatcher.
    pub fn notify_queues(&self) {
        self.queue_changed.notify_one();
    }

    /// Stops a run. A queued run is cancelled at once; a second call has no effect.
    pub async fn stop(
        &self,
        tenant: &TenantId,
        run: &RunId,
        entry: NewAuditEntry,
    ) -> Result<RunStatus, Problem> {
        self.stop_with_cause(tenant, run, None, entry).await
    }

    async fn stop_with_cause(
        &self,
        tenant: &TenantId,
        run: &RunId,
        cause: Option<RunError>,
        entry: NewAuditEntry,
    ) -> Result<RunStatus, Problem> {
        let cancel = RunUpdate {
            allowed_from: vec![RunStatus::Queued],
            events: vec![hub_event(cancelled_event(cause.clone()))],
            change: RunChange {
                status: Some(RunStatus::Cancelled),
                error: cause.clone(),
                ..RunChange::default()
            },
            entry: Some(entry.clone()),
            ..RunUpdate::default()
        };
        match self.update(tenant, run, cancel).await {
            Ok(_) => return Ok(RunStatus::Cancelled),
            Err(StateError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let stop = RunUpdate {
            allowed_from: vec![RunStatus::Running, RunStatus::WaitingForApproval],
            change: RunChange {
                status: Some(RunStatus::Stopping),
                // Stored at once, so that a process that resumes the run knows the cause.
                error: cause.clone(),
                ..RunChange::default()
            },
            entry: Some(entry),
            ..RunUpdate::default()
        };
        match self.update(tenant, run, stop).await {
            Ok(_) => {}
            Err(StateError::Conflict { .. }) => {
                let record = self.state.run(tenant, run).await?;
                let status = record.map(|record| record.run.status);
                if status != Some(RunStatus::Stopping) {
                    let message = "the run has ended";
                    return Err(Problem::precondition(message).with_reason("run_ended"));
                }
            }
            Err(error) => return Err(error.into()),
        }
        if let Some(handle) = self.handle(run) {
            if let Some(cause) = cause {
                let _ = handle.cause.set(cause);
            }
            handle.stop.cancel();
        }
        Ok(RunStatus::Stopping)
    }

    /// Stops all runs of a tenant. Queued ones are cancelled. All of them get the cause as error.
    pub async fn stop_all(&self, tenant: &TenantId, cause: TenantStop) -> Result<(), Problem> {
        for status in [
            RunStatus::Queued,
            RunStatus::Running,
            RunStatus::WaitingForApproval,
        ] {
            let query = RunQuery {
                tenant: Some(tenant.clone()),
                status: Some(status),
                ..RunQuery::default()
            };
            let mut page = Page::first(500);
            loop {
                let found = self.state.runs(&query, &page).await?;
                for run in found.items {
                    let entry = NewAuditEntry::by_hub("stop_run")
                        .for_tenant(tenant)
                        .with_target(run.run_id.as_str());
                    let stopped =
                        self.stop_with_cause(tenant, &run.run_id, Some(cause.error()), entry);
                    match stopped.await {
                        Err(problem) if problem.reason != Some("run_ended") => return Err(problem),
                        _ => {}
                    }
                }
                match found.next {
                    Some(next) => page = Page::after(500, next),
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Streams a run's events after one of them until the run ends, stored events first.
    pub fn events(self: &Arc<Self>, tenant: &TenantId, run: &RunId, after: u64) -> RunEventStream {
        crate::tenants::runs::watcher::watch_run(
            Arc::clone(self),
            tenant.clone(),
            run.clone(),
            after,
        )
    }

    /// Stops: active runs get this long. Interrupted ones are resumed at the next start.
    pub async fn close(&self, timeout: Duration) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(timeout, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("shutdown grace period ended with runs in progress");
        }
    }

    /// Stores an update and then notifies watchers.
    async fn update(
        &self,
        tenant: &TenantId,
        run: &RunId,
        update: RunUpdate,
    ) -> Result<RunUpdated, StateError> {
        let ends_as = update.change.status.filter(|status| status.is_final());
        let updated = self.state.update_run(tenant, run, update).await?;
        if let Some(status) = ends_as {
            let label = format!("status=\"{status}\"");
            self.agents
                .metrics()
                .increment("runs_ended_total", label, 1);
        }
        self.watchers.publish(run, &updated.events);
        self.state.notify(Notice::Run(run.clone()));
        Ok(updated)
    }

    fn spawn_run(self: &Arc<Self>, record: RunRecord, previous_end: PreviousEnd) {
        let runs = Arc::clone(self);
        let id = record.run.run_id.clone();
        let handle = Arc::new(RunHandle {
            tenant: record.run.tenant_id.clone(),
            previous_end,
            leave: self.closing.child_token(),
            done: CancellationToken::new(),
            stop: CancellationToken::new(),
            cause: OnceLock::new(),
            decision_made: Notify::new(),
        });
        self.lock_active().insert(id.clone(), Arc::clone(&handle));
        let span = request::run_span(&record);
        let work = async move {
            let done = handle.done.clone().drop_guard();
            crate::tenants::runs::execute::execute_run(&runs, record, &handle).await;
            runs.lock_active().remove(&id);
            drop(done);
            runs.notify_queues();
        };
        self.tasks.spawn(work.instrument(span));
    }

    fn handle(&self, run: &RunId) -> Option<Arc<RunHandle>> {
        self.lock_active().get(run).cloned()
    }

    fn lock_active(&self) -> hermes_config::sync::MutexGuard<'_, HashMap<RunId, Arc<RunHandle>>> {
        self.active.lock()
    }
}

pub(crate) fn job_run(tenant: &TenantId, job: &JobId) -> Result<NewRun, Problem> {
    Ok(NewRun {
        id: new_run_id()?,
        tenant: tenant.clone(),
        trigger: RunTrigger::Cron,
        request: serde_json::json!({"job": job}),
        job: Some(job.clone()),
        metadata: serde_json::Map::new(),
        timeout_seconds: None,
        retry_interrupted: false,
    })
}

fn new_run_id() -> Result<RunId, Problem> {
    RunId::random().map_err(|error| Problem::internal(&error))
}

/// An event of the Hub itself.
fn hub_event(event: RunEvent) -> NewEvent {
    NewEvent {
        event,
        agent_sequence: None,
    }
}

/// The last event of a run that was stopped, with the cause unless somebody stopped this run itself.
fn cancelled_event(cause: Option<RunError>) -> RunEvent {
    RunEvent::Cancelled {
        reason: cause.as_ref().map(|cause| cause.code.clone()),
        error: cause.map(Into::into),
        usage: None,
        model: None,
    }
}
