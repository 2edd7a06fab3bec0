//! Runs: turns and cron jobs that are accepted, executed, watched, stopped and decided.
//!
//! A run is stored before it is accepted, and each of its events before it is sent. Turns of one
//! session run in order, sessions run in parallel. A failure ends only its own run.

mod approvals;
mod display;
mod elicitation;
mod job;
mod log;
mod meter;
mod outcome;
mod session_slots;
mod stored_session;
mod surface;
mod turn;

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{FutureExt as _, future::BoxFuture};
use hermes_agent::{
    approval::{DecisionRegistry, is_owner_gone},
    conversation::{Agent, BackgroundCommands},
    cron::{ClaimedRun, Delivery, JobRunner},
    server_requests::elicitation::ElicitationRegistry,
};
use hermes_config::{
    sync::{Mutex, MutexGuard},
    traced_span,
};
use hermes_store::{
    SessionId, StoreError,
    runtime::{IdempotencyKey, NewRun, Run, RunAcceptance, RunStatus, RuntimeStore, new_run_id},
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

pub use self::{
    approvals::DecideError,
    stored_session::{CompressedSession, SessionDeletion},
};
use self::{
    elicitation::OpenQuestions,
    log::{RunLog, RunProgress},
    outcome::{RunOutcome, RunUse},
};
use crate::runs::session_slots::{SessionQueueEntry, SessionSlots, TurnSlots};
pub use crate::runs::{
    elicitation::ServerQuestion,
    log::RunWatcher,
    meter::{MeterError, RunMeter},
    surface::{ChatSurface, TurnObserver, TurnResult},
    turn::TurnRequest,
};

/// How long runs and closed approvals are stored.
pub const RETENTION: Duration = Duration::from_hours(24 * 7);
const INTERRUPT_GRACE: Duration = Duration::from_secs(3);

pub enum RunInput {
    /// A user message and the agent's answer.
    Turn(Box<TurnRequest>),
    Job(Box<ClaimedRun>),
}

/// A run that was accepted: turns of a session go on in the order in which they were.
enum AcceptedInput {
    Turn(Box<TurnRequest>, SessionQueueEntry),
    Job(Box<ClaimedRun>),
}

impl AcceptedInput {
    fn observer(&self) -> Option<Arc<dyn TurnObserver>> {
        match self {
            Self::Turn(say, _) => Some(say.surface.as_ref()?.observer.clone()),
            Self::Job(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunSource {
    /// A client that polls for the result.
    Api,
    /// A client that waits for the answer.
    Chat,
    /// The scheduler, or a manual trigger.
    Cron,
    /// A chat on a platform.
    Platform,
}

impl RunSource {
    fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Chat => "chat",
            Self::Cron => "cron",
            Self::Platform => "platform",
        }
    }

    /// Whether the limit of clients' runs applies. The others would not retry: the scheduler has a claimed job, a platform
    /// a message that was acknowledged.
    fn is_limited(self) -> bool {
        matches!(self, Self::Api | Self::Chat)
    }
}

pub struct RunParts {
    pub agent: Agent,
    pub store: RuntimeStore,
    pub runner: Arc<JobRunner>,
    /// Delivers the messages of cron jobs.
    pub delivery: Arc<dyn Delivery>,
    pub directory: PathBuf,
    /// Where runs register for elicitation.
    pub elicitation: Arc<ElicitationRegistry>,
    /// Parallel turns.
    pub concurrent_turns: usize,
    /// Active runs of clients.
    pub concurrent_runs: usize,
    /// Who counts the runs of chats, if somebody does.
    pub meter: Option<Arc<dyn RunMeter>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedRun {
    pub id: String,
    pub session: Option<SessionId>,
    /// Whether it was accepted before, with the same idempotency key.
    pub is_replay: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{limit} runs are active, which is the limit; retry in a moment")]
    TooMany {
        /// `api_server.max_concurrent_runs`.
        limit: usize,
    },
    #[error("the idempotency key was used for another request")]
    KeyReused,
    #[error("the gateway is stopping and accepts no new runs")]
    Stopping,
    #[error(transparent)]
    Meter(#[from] MeterError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// There is none of that name.
    #[error("unknown run")]
    NotFound,
    #[error("the run has ended")]
    AlreadyEnded,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The runs of a home. Clones share them.
#[derive(Clone)]
pub struct Runs {
    inner: Arc<RunsInner>,
}

struct RunsInner {
    parts: RunParts,
    decisions: DecisionRegistry,
    questions: OpenQuestions,
    started_at: Instant,
    live: Mutex<HashMap<String, Arc<LiveRun>>>,
    /// The number of active runs.
    count: watch::Sender<usize>,
    session_slots: SessionSlots,
    turn_slots: TurnSlots,
    tasks: TaskTracker,
    closing: AtomicBool,
    stop: CancellationToken,
}

struct LiveRun {
    id: String,
    source: RunSource,
    stop: CancellationToken,
    /// Whether this run was stopped on request.
    is_stopped: AtomicBool,
    progress: watch::Sender<RunProgress>,
    /// What its model used, if it has no answer.
    used: OnceLock<RunUse>,
}

impl Runs {
    /// Opens the runs of a home. Runs of an ended process are marked as failed. Only for the holder of the
    /// home's lock.
    pub async fn open(parts: RunParts) -> Result<Self, StoreError> {
        let store = &parts.store;
        for run in store.unfinished_runs().await? {
            let outcome =
                RunOutcome::failed("interrupted", "the gateway stopped before the run ended");
            store
                .finish_run(&run.id, &outcome.into_run_end(&run.id, None, None))
                .await?;
            tracing::warn!(run = run.id, "marked an abandoned run as failed");
        }
        store.expire_approvals(is_owner_gone).await?;
        let turns = TurnSlots::new(parts.agent.clone(), parts.concurrent_turns);
        let runs = Self {
            inner: Arc::new(RunsInner {
                decisions: DecisionRegistry::new(parts.agent.home().clone()),
                parts,
                questions: OpenQuestions::default(),
                started_at: Instant::now(),
                live: Mutex::default(),
                count: watch::Sender::new(0),
                session_slots: SessionSlots::default(),
                turn_slots: turns,
                tasks: TaskTracker::new(),
                closing: AtomicBool::new(false),
                stop: CancellationToken::new(),
            }),
        };
        runs.prune().await?;
        // What an earlier process did not tell.
        let inner = runs.inner.clone();
        runs.inner
            .tasks
            .spawn(async move { inner.report_chat_runs().await });
        Ok(runs)
    }

    /// Prunes old runs, and closes idle conversations.
    pub async fn prune(&self) -> Result<(), StoreError> {
        let store = &self.inner.parts.store;
        store.prune_runs(RETENTION).await?;
        store.prune_approvals(RETENTION).await?;
        store.prune_replies(Duration::from_hours(24)).await?;
        self.inner.session_slots.clear_idle().await;
        Ok(())
    }

    /// Accepts and starts a run. When this returns, the run is stored.
    pub fn start(
        &self,
        run_input: RunInput,
        source: RunSource,
        input: Value,
        idempotency: Option<IdempotencyKey>,
    ) -> BoxFuture<'_, Result<StartedRun, StartError>> {
        Box::pin(async move {
            let inner = &self.inner;
            if let Some(key) = &idempotency
                && let Some(earlier) = self.find_earlier(key).await?
            {
                return Ok(earlier);
            }
            if !self.accepts_new() {
                return Err(StartError::Stopping);
            }
            let session = match &run_input {
                RunInput::Turn(say) => Some(say.session.clone()),
                RunInput::Job(_) => None,
            };
            let job = match &run_input {
                RunInput::Turn(_) => None,
                RunInput::Job(claimed) => Some(claimed.job().id().to_owned()),
            };
            let live = inner.admit_run(source)?;
            if let Err(error) = inner.count_run(&live).await {
                inner.remove_run(&live);
                return Err(error.into());
            }
            let new = NewRun {
                id: live.id.clone(),
                session: session.clone(),
                source: source.as_str().into(),
                job,
                input,
                idempotency,
            };
            match inner.parts.store.create_run(&new).await {
                Ok(RunAcceptance::New) => {}
                Ok(earlier) => {
                    inner.remove_run(&live);
                    return replayed_run(earlier);
                }
                Err(error) => {
                    inner.remove_run(&live);
                    return Err(error.into());
                }
            }
            let id = live.id.clone();
            let span = traced_span!(
                "run",
                hermes.run.id = &*id,
                hermes.run.source = source.as_str()
            );
            let accepted = match run_input {
                RunInput::Turn(say) => {
                    let place = inner.session_slots.join_queue(&say.session);
                    AcceptedInput::Turn(say, place)
                }
                RunInput::Job(claimed) => AcceptedInput::Job(claimed),
            };
            let task = inner.clone().execute(live, accepted);
            inner.tasks.spawn(task.instrument(span));
            Ok(StartedRun {
                id,
                session,
                is_replay: false,
            })
        })
    }

    /// The run that was accepted with this idempotency key.
    pub async fn find_earlier(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<StartedRun>, StartError> {
        let accepted = self.inner.parts.store.find_run_by_key(key).await?;
        accepted.map(replayed_run).transpose()
    }

    /// A run, under way or over.
    pub async fn find_run(&self, id: &str) -> Result<Option<Run>, StoreError> {
        self.inner.parts.store.run(id).await
    }

    /// The events of a run after this one. `None` if the run is unknown.
    pub async fn watch_events(
        &self,
        id: &str,
        after: i64,
    ) -> Result<Option<RunWatcher>, StoreError> {
        // Live runs are checked first: if the run ends meanwhile, the store has all events.
        let live = self.inner.lock_live().get(id).cloned();
        let store = &self.inner.parts.store;
        if live.is_none() && store.run(id).await?.is_none() {
            return Ok(None);
        }
        let progress = live.map(|live| live.progress.subscribe());
        Ok(Some(RunWatcher::new(store.clone(), id, after, progress)))
    }

    /// Stops a run. It ends within a second.
    pub async fn stop(&self, id: &str) -> Result<(), StopError> {
        let live = self.inner.lock_live().get(id).cloned();
        let store = &self.inner.parts.store;
        let Some(live) = live else {
            return Err(match store.run(id).await? {
                Some(_) => StopError::AlreadyEnded,
                None => StopError::NotFound,
            });
        };
        let stopping = store.set_run_status(id, RunStatus::Stopping).await;
        live.is_stopped.store(true, Ordering::Release);
        live.stop.cancel();
        stopping?;
        Ok(())
    }

    /// Stops a run whose client has disconnected.
    pub fn abandon(&self, id: &str) {
        if let Some(live) = self.inner.lock_live().get(id) {
            live.is_stopped.store(true, Ordering::Release);
            live.stop.cancel();
        }
    }

    /// Closes the open conversation of a session, if no turn uses it: the chat has gone over to another one.
    pub async fn release_session(&self, session: &SessionId) {
        self.inner.session_slots.release(session).await;
    }

    /// Whether a background process of a session runs; also while a turn goes on in it.
    pub fn has_processes(&self, session: &SessionId) -> bool {
        self.inner.session_slots.has_processes(session)
    }

    /// The background commands of a session; none if its conversation is not open.
    pub fn background_commands(&self, session: &SessionId) -> BackgroundCommands {
        self.inner.session_slots.background_commands(session)
    }

    pub fn active_count(&self) -> watch::Receiver<usize> {
        self.inner.count.subscribe()
    }

    /// The numbers of queued runs and of active turns.
    pub fn queue_depths(&self) -> Value {
        let inner = &self.inner;
        let live = inner.lock_live().len();
        let busy = inner.turn_slots.in_use();
        json!({"runs": live, "turns": busy, "waiting": live.saturating_sub(busy)})
    }

    pub fn accepts_new(&self) -> bool {
        !self.inner.closing.load(Ordering::Acquire)
    }

    pub fn stop_accepting(&self) {
        self.inner.closing.store(true, Ordering::Release);
    }

    /// Accepts no more runs, waits this long for active ones, then interrupts them.
    pub fn close(&self, timeout: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let inner = &self.inner;
            self.stop_accepting();
            inner.tasks.close();
            if !timeout.is_zero() {
                let _ = tokio::time::timeout(timeout, inner.tasks.wait()).await;
            }
            inner.stop.cancel();
            let ended = async {
                inner.tasks.wait().await;
                inner.session_slots.clear_all().await;
            };
            if tokio::time::timeout(INTERRUPT_GRACE, ended).await.is_err() {
                tracing::warn!("shutdown timed out with active runs");
            }
            inner.decisions.close().await;
        })
    }
}

fn replayed_run(accepted: RunAcceptance) -> Result<StartedRun, StartError> {
    match accepted {
        RunAcceptance::Same(run) => Ok(StartedRun {
            id: run.id,
            session: run.session,
            is_replay: true,
        }),
        _ => Err(StartError::KeyReused),
    }
}

impl RunsInner {
    fn lock_live(&self) -> MutexGuard<'_, HashMap<String, Arc<LiveRun>>> {
        self.live.lock()
    }

    /// Admits a run within the limits.
    fn admit_run(&self, source: RunSource) -> Result<Arc<LiveRun>, StartError> {
        let mut all = self.lock_live();
        let limit = self.parts.concurrent_runs;
        let is_clients = |live: &&Arc<LiveRun>| live.source.is_limited();
        if source.is_limited() && all.values().filter(is_clients).count() >= limit {
            return Err(StartError::TooMany { limit });
        }
        let live = Arc::new(LiveRun {
            id: new_run_id(),
            source,
            stop: self.stop.child_token(),
            is_stopped: AtomicBool::new(false),
            progress: watch::Sender::default(),
            used: OnceLock::new(),
        });
        all.insert(live.id.clone(), live.clone());
        self.count.send_replace(all.len());
        Ok(live)
    }

    fn remove_run(&self, live: &LiveRun) {
        let mut all = self.lock_live();
        all.remove(&live.id);
        self.count.send_replace(all.len());
    }

    /// Executes a run and stores its events and its end.
    async fn execute(self: Arc<Self>, live: Arc<LiveRun>, input: AcceptedInput) {
        let observer = input.observer();
        let (log, writer) = log::new_log(&live.id, self.parts.store.clone(), live.progress.clone());
        let work = async {
            let work = AssertUnwindSafe(self.execute_input(&live, &log, input)).catch_unwind();
            let done = work.await;
            // An answer is stored: whoever waits for it does not wait for the events of the run either.
            if let (Some(observer), Ok((outcome @ RunOutcome::Completed { .. }, _))) =
                (&observer, &done)
            {
                observer.turn_ended(outcome.turn_result(false));
            }
            log.end();
            done
        };
        // Events that are not stored cannot be seen, so the run is stopped.
        let writing = async {
            writer.run().await.inspect_err(|error| {
                tracing::error!(run = live.id, %error, "failed to store the events of a run");
                live.stop.cancel();
            })
        };
        let (done, written) = tokio::join!(work, writing);
        let (outcome, session) = match (done, written) {
            (Ok(done), Ok(())) => done,
            (Ok(_), Err(error)) => (RunOutcome::failed("store_error", error.to_string()), None),
            (Err(_), _) => {
                tracing::error!(run = live.id, "run panicked");
                let message = "this is a bug in hermes: the run ended unexpectedly";
                (RunOutcome::failed("internal", message), None)
            }
        };
        let outcome = outcome.with_stop_cause(&live, self.stop.is_cancelled());
        // The answer is stored: whoever waits for it does not wait for the record of the run.
        if let Some(observer) = observer {
            observer.turn_ended(outcome.turn_result(self.stop.is_cancelled()));
        }
        let end = outcome.into_run_end(&live.id, session, live.used.get());
        if let Err(error) = self.parts.store.finish_run(&live.id, &end).await {
            tracing::error!(run = live.id, %error, "failed to store the end of a run");
        }
        self.remove_run(&live);
        live.progress
            .send_modify(|progress| progress.is_over = true);
        self.session_slots.clear_idle().await;
        self.parts.agent.store().checkpoint_if_due().await;
        if live.source == RunSource::Platform {
            self.report_chat_runs().await;
        }
    }

    async fn execute_input(
        &self,
        live: &LiveRun,
        log: &RunLog,
        input: AcceptedInput,
    ) -> (RunOutcome, Option<SessionId>) {
        match input {
            AcceptedInput::Turn(say, place) => {
                (self.execute_turn(live, log, *say, place).await, None)
            }
            AcceptedInput::Job(claimed) => self.execute_job(live, log, *claimed).await,
        }
    }
}
