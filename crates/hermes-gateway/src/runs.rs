//! Runs: turns and cron jobs that are accepted, executed, watched, stopped and decided.
//!
//! A run is stored before it is accepted, and each of its events before it is sent. Turns of one
//! session run in order, sessions run in parallel. A failure ends only its own run.

mod approvals;
mod display;
mod job;
mod log;
mod outcome;
mod say;
mod seats;
mod turns;
mod watching;

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::FutureExt as _;
use hermes_agent::{
    approval::{Decisions, is_owner_gone},
    conversation::Agent,
    cron::{Claimed, Delivery, Runner},
    elicitation::People,
};
use hermes_store::{
    SessionId, StoreError,
    runtime::{Accepted, Idempotency, NewRun, Run, RunStatus, RuntimeStore, new_run_id},
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    approvals::{Decision, NotDecided, Which},
    say::Say,
    watching::Watching,
};
use self::{
    log::{Progress, RunLog},
    outcome::Outcome,
    seats::Seats,
    turns::Turns,
};

/// How long runs and closed approvals are stored.
pub const MEMORY: Duration = Duration::from_hours(24 * 7);
const LAST_WORDS: Duration = Duration::from_secs(3);

pub enum Errand {
    /// A user message and the agent's answer.
    Say(Box<Say>),
    Job(Box<Claimed>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A client that polls for the result.
    Api,
    /// A client that waits for the answer.
    Chat,
    /// The scheduler, or a manual trigger.
    Cron,
}

impl Source {
    fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Chat => "chat",
            Self::Cron => "cron",
        }
    }
}

pub struct RunParts {
    pub agent: Agent,
    pub store: RuntimeStore,
    pub runner: Arc<Runner>,
    /// Delivers the messages of cron jobs.
    pub delivery: Arc<dyn Delivery>,
    pub directory: PathBuf,
    /// Where runs register for elicitation.
    pub people: Arc<People>,
    /// Parallel turns.
    pub concurrent_turns: usize,
    /// Active runs of clients.
    pub concurrent_runs: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub id: String,
    pub session: Option<SessionId>,
    /// Whether it was accepted before, with the same idempotency key.
    pub is_replay: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
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
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum NotStopped {
    /// There is none of that name.
    #[error("unknown run")]
    NotFound,
    #[error("the run has ended")]
    IsOver,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The runs of a home. Clones share them.
#[derive(Clone)]
pub struct Runs {
    inner: Arc<Inner>,
}

struct Inner {
    parts: RunParts,
    decisions: Decisions,
    began: Instant,
    live: Mutex<HashMap<String, Arc<Live>>>,
    /// The number of active runs.
    count: watch::Sender<usize>,
    seats: Seats,
    turns: Turns,
    tasks: TaskTracker,
    closing: AtomicBool,
    stop: CancellationToken,
}

struct Live {
    id: String,
    source: Source,
    stop: CancellationToken,
    /// Whether this run was stopped on request.
    is_stopped: AtomicBool,
    progress: watch::Sender<Progress>,
}

impl Runs {
    /// Opens the runs of a home. Runs of an ended process are marked as failed. Only for the holder of the
    /// home's lock.
    pub async fn open(parts: RunParts) -> Result<Self, StoreError> {
        let store = &parts.store;
        for run in store.unfinished_runs().await? {
            let outcome = Outcome::failed("interrupted", "the gateway stopped before the run ended");
            store
                .finish_run(&run.id, &outcome.end(&run.id, None))
                .await?;
            tracing::warn!(run = run.id, "marked an abandoned run as failed");
        }
        store.expire_approvals(is_owner_gone).await?;
        let turns = Turns::new(parts.agent.clone(), parts.concurrent_turns);
        let runs = Self {
            inner: Arc::new(Inner {
                decisions: Decisions::new(parts.agent.home().clone()),
                parts,
                began: Instant::now(),
                live: Mutex::default(),
                count: watch::Sender::new(0),
                seats: Seats::default(),
                turns,
                tasks: TaskTracker::new(),
                closing: AtomicBool::new(false),
                stop: CancellationToken::new(),
            }),
        };
        runs.tidy().await?;
        Ok(runs)
    }

    /// Prunes old runs, and closes idle conversations.
    pub async fn tidy(&self) -> Result<(), StoreError> {
        let store = &self.inner.parts.store;
        store.prune_runs(MEMORY).await?;
        store.prune_approvals(MEMORY).await?;
        store.prune_replies(Duration::from_hours(24)).await?;
        self.inner.seats.clear_idle().await;
        Ok(())
    }

    /// Accepts and starts a run. When this returns, the run is stored.
    pub async fn start(
        &self,
        errand: Errand,
        source: Source,
        input: Value,
        idempotency: Option<Idempotency>,
    ) -> Result<Started, NotStarted> {
        let inner = &self.inner;
        if let Some(key) = &idempotency
            && let Some(earlier) = self.earlier(key).await?
        {
            return Ok(earlier);
        }
        if !self.takes_new() {
            return Err(NotStarted::Stopping);
        }
        let session = match &errand {
            Errand::Say(say) => Some(say.session.clone()),
            Errand::Job(_) => None,
        };
        let job = match &errand {
            Errand::Say(_) => None,
            Errand::Job(claimed) => Some(claimed.job().id().to_owned()),
        };
        let live = inner.admit(source)?;
        let new = NewRun {
            id: live.id.clone(),
            session: session.clone(),
            source: source.as_str().into(),
            job,
            input,
            idempotency,
        };
        match inner.parts.store.create_run(&new).await {
            Ok(Accepted::New) => {}
            Ok(earlier) => {
                inner.dismiss(&live);
                return replay(earlier);
            }
            Err(error) => {
                inner.dismiss(&live);
                return Err(error.into());
            }
        }
        let id = live.id.clone();
        let task = inner.clone().carry_out(live, errand);
        inner.tasks.spawn(task);
        Ok(Started {
            id,
            session,
            is_replay: false,
        })
    }

    /// The run that was accepted with this idempotency key.
    pub async fn earlier(&self, key: &Idempotency) -> Result<Option<Started>, NotStarted> {
        let accepted = self.inner.parts.store.same_run(key).await?;
        accepted.map(replay).transpose()
    }

    /// A run, under way or over.
    pub async fn run(&self, id: &str) -> Result<Option<Run>, StoreError> {
        self.inner.parts.store.run(id).await
    }

    /// The events of a run after this one. `None` if the run is unknown.
    pub async fn watch(&self, id: &str, after: i64) -> Result<Option<Watching>, StoreError> {
        // Live runs are checked first: if the run ends meanwhile, the store has all events.
        let live = self.inner.live().get(id).cloned();
        let store = &self.inner.parts.store;
        if live.is_none() && store.run(id).await?.is_none() {
            return Ok(None);
        }
        let progress = live.map(|live| live.progress.subscribe());
        Ok(Some(Watching::new(store.clone(), id, after, progress)))
    }

    /// Stops a run. It ends within a second.
    pub async fn stop(&self, id: &str) -> Result<(), NotStopped> {
        let live = self.inner.live().get(id).cloned();
        let store = &self.inner.parts.store;
        let Some(live) = live else {
            return Err(match store.run(id).await? {
                Some(_) => NotStopped::IsOver,
                None => NotStopped::NotFound,
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
        if let Some(live) = self.inner.live().get(id) {
            live.is_stopped.store(true, Ordering::Release);
            live.stop.cancel();
        }
    }

    pub fn active(&self) -> watch::Receiver<usize> {
        self.inner.count.subscribe()
    }

    /// The numbers of queued runs and of active turns.
    pub fn depths(&self) -> Value {
        let inner = &self.inner;
        let live = inner.live().len();
        let busy = inner.turns.busy();
        json!({"runs": live, "turns": busy, "waiting": live.saturating_sub(busy)})
    }

    pub fn takes_new(&self) -> bool {
        !self.inner.closing.load(Ordering::Acquire)
    }

    pub fn refuse_new(&self) {
        self.inner.closing.store(true, Ordering::Release);
    }

    /// Accepts no more runs, waits this long for active ones, then interrupts them.
    pub async fn close(&self, patience: Duration) {
        let inner = &self.inner;
        self.refuse_new();
        inner.tasks.close();
        if !patience.is_zero() {
            let _ = tokio::time::timeout(patience, inner.tasks.wait()).await;
        }
        inner.stop.cancel();
        let ended = async {
            inner.tasks.wait().await;
            inner.seats.clear_all().await;
        };
        if tokio::time::timeout(LAST_WORDS, ended).await.is_err() {
            tracing::warn!("shutdown timed out with active runs");
        }
        inner.decisions.close().await;
    }
}

fn replay(accepted: Accepted) -> Result<Started, NotStarted> {
    match accepted {
        Accepted::Same(run) => Ok(Started {
            id: run.id,
            session: run.session,
            is_replay: true,
        }),
        _ => Err(NotStarted::KeyReused),
    }
}

impl Inner {
    fn live(&self) -> MutexGuard<'_, HashMap<String, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a run within the limits. The scheduler is not refused: it would not retry.
    fn admit(&self, source: Source) -> Result<Arc<Live>, NotStarted> {
        let mut all = self.live();
        let limit = self.parts.concurrent_runs;
        let is_clients = |live: &&Arc<Live>| live.source != Source::Cron;
        if source != Source::Cron && all.values().filter(is_clients).count() >= limit {
            return Err(NotStarted::TooMany { limit });
        }
        let live = Arc::new(Live {
            id: new_run_id(),
            source,
            stop: self.stop.child_token(),
            is_stopped: AtomicBool::new(false),
            progress: watch::Sender::default(),
        });
        all.insert(live.id.clone(), live.clone());
        self.count.send_replace(all.len());
        Ok(live)
    }

    fn dismiss(&self, live: &Live) {
        let mut all = self.live();
        all.remove(&live.id);
        self.count.send_replace(all.len());
    }

    /// Executes a run and stores its events and its end.
    async fn carry_out(self: Arc<Self>, live: Arc<Live>, errand: Errand) {
        let (log, writer) = log::new(&live.id, self.parts.store.clone(), live.progress.clone());
        let work = async {
            let work = AssertUnwindSafe(self.work(&live, &log, errand)).catch_unwind();
            let done = work.await;
            log.end();
            done
        };
        // Events that are not stored cannot be seen, so the run is stopped.
        let writing = async {
            writer.run().await.inspect_err(|error| {
                tracing::error!(run = live.id, %error, "storing the events of a run failed");
                live.stop.cancel();
            })
        };
        let (done, written) = tokio::join!(work, writing);
        let (outcome, session) = match (done, written) {
            (Ok(done), Ok(())) => done,
            (Ok(_), Err(error)) => (Outcome::failed("store_error", error.to_string()), None),
            (Err(_), _) => {
                tracing::error!(run = live.id, "run panicked");
                let message = "this is a bug in hermes: the run ended unexpectedly";
                (Outcome::failed("internal", message), None)
            }
        };
        let outcome = outcome.considering(&live, self.stop.is_cancelled());
        let end = outcome.end(&live.id, session);
        if let Err(error) = self.parts.store.finish_run(&live.id, &end).await {
            tracing::error!(run = live.id, %error, "storing the end of a run failed");
        }
        self.dismiss(&live);
        live.progress
            .send_modify(|progress| progress.is_over = true);
        self.seats.clear_idle().await;
    }

    async fn work(
        &self,
        live: &Live,
        log: &RunLog,
        errand: Errand,
    ) -> (Outcome, Option<SessionId>) {
        match errand {
            Errand::Say(say) => (self.say(live, log, *say).await, None),
            Errand::Job(claimed) => self.job(live, log, *claimed).await,
        }
    }
}
