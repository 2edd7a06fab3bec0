//! Runs: turns and cron jobs that are accepted, carried out, watched, stopped and decided about.
//!
//! A run is in the store before it is accepted, and so is each of its events before anybody sees it. Turns of one
//! session follow each other, sessions go on side by side. Whatever happens in a run ends that run alone.

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

/// How long runs and closed questions are remembered.
pub const MEMORY: Duration = Duration::from_hours(24 * 7);
/// How long interrupted runs may take to end.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// What a run is to do.
pub enum Errand {
    /// Say something and let the agent answer.
    Say(Box<Say>),
    /// Carry out a cron job.
    Job(Box<Claimed>),
}

/// Where a run comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A client that will come back for the result.
    Api,
    /// A client that waits for the answer.
    Chat,
    /// The clock, or somebody who did not wait for it.
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

/// What runs are made with.
pub struct RunParts {
    /// Who does the work.
    pub agent: Agent,
    /// Where runs are kept.
    pub store: RuntimeStore,
    /// Runs cron jobs.
    pub runner: Arc<Runner>,
    /// Brings the messages of cron jobs to where they belong.
    pub delivery: Arc<dyn Delivery>,
    /// Where conversations work.
    pub directory: PathBuf,
    /// Those whom servers may ask; runs take their places there.
    pub people: Arc<People>,
    /// Turns that go on side by side.
    pub concurrent_turns: usize,
    /// Runs of clients that are accepted at a time.
    pub concurrent_runs: usize,
}

/// A run that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Its name.
    pub id: String,
    /// Its session.
    pub session: Option<SessionId>,
    /// Whether it was accepted before, under the same key.
    pub is_replay: bool,
}

/// Why a run was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// Too many at once.
    #[error("{limit} runs are under way, which is the limit; try again in a moment")]
    TooMany {
        /// `api_server.max_concurrent_runs`.
        limit: usize,
    },
    /// The key belongs to another request.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// It is about to stop.
    #[error("the gateway is stopping and takes no new runs")]
    Stopping,
    /// It could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a run was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum NotStopped {
    /// There is none of that name.
    #[error("there is no such run")]
    NotFound,
    /// It is over.
    #[error("the run is over")]
    IsOver,
    /// That could not be found out.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The runs of a home. Clones are the same runs.
#[derive(Clone)]
pub struct Runs {
    inner: Arc<Inner>,
}

struct Inner {
    parts: RunParts,
    /// The questions of all runs.
    decisions: Decisions,
    began: Instant,
    live: Mutex<HashMap<String, Arc<Live>>>,
    /// How many are under way, for those who want to know.
    count: watch::Sender<usize>,
    seats: Seats,
    turns: Turns,
    tasks: TaskTracker,
    /// No more are accepted.
    closing: AtomicBool,
    /// Ends all of them.
    stop: CancellationToken,
}

/// A run under way.
struct Live {
    id: String,
    source: Source,
    stop: CancellationToken,
    /// Whether somebody told this run to stop.
    is_stopped: AtomicBool,
    progress: watch::Sender<Progress>,
}

impl Runs {
    /// Takes up the runs of a home. Those that another process left behind have failed. Only for whoever holds the
    /// home's lock.
    pub async fn open(parts: RunParts) -> Result<Self, StoreError> {
        let store = &parts.store;
        for run in store.unfinished_runs().await? {
            let outcome = Outcome::failed("interrupted", "the gateway ended before the run did");
            store
                .finish_run(&run.id, &outcome.end(&run.id, None))
                .await?;
            tracing::warn!(run = run.id, "a run was cut off");
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

    /// Forgets what is old, and lets go of conversations nobody uses.
    pub async fn tidy(&self) -> Result<(), StoreError> {
        let store = &self.inner.parts.store;
        store.prune_runs(MEMORY).await?;
        store.prune_approvals(MEMORY).await?;
        store.prune_replies(Duration::from_hours(24)).await?;
        self.inner.seats.clear_idle().await;
        Ok(())
    }

    /// Accepts a run and begins it. When this returns, the run is stored.
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

    /// The run that was accepted under a key before.
    pub async fn earlier(&self, key: &Idempotency) -> Result<Option<Started>, NotStarted> {
        let accepted = self.inner.parts.store.same_run(key).await?;
        accepted.map(replay).transpose()
    }

    /// A run, under way or over.
    pub async fn run(&self, id: &str) -> Result<Option<Run>, StoreError> {
        self.inner.parts.store.run(id).await
    }

    /// The events of a run after this one. None if there is no such run.
    pub async fn watch(&self, id: &str, after: i64) -> Result<Option<Watching>, StoreError> {
        // Looked for first: when it ends meanwhile, the store has it all.
        let live = self.inner.live().get(id).cloned();
        let store = &self.inner.parts.store;
        if live.is_none() && store.run(id).await?.is_none() {
            return Ok(None);
        }
        let progress = live.map(|live| live.progress.subscribe());
        Ok(Some(Watching::new(store.clone(), id, after, progress)))
    }

    /// Tells a run to stop. It ends within a second.
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

    /// Tells a run to stop that nobody waits for any more.
    pub fn abandon(&self, id: &str) {
        if let Some(live) = self.inner.live().get(id) {
            live.is_stopped.store(true, Ordering::Release);
            live.stop.cancel();
        }
    }

    /// How many runs are under way.
    pub fn active(&self) -> watch::Receiver<usize> {
        self.inner.count.subscribe()
    }

    /// How many runs wait for their session or for a free turn, and how many turns are under way.
    pub fn depths(&self) -> Value {
        let inner = &self.inner;
        let live = inner.live().len();
        let busy = inner.turns.busy();
        json!({"runs": live, "turns": busy, "waiting": live.saturating_sub(busy)})
    }

    /// Whether more runs are taken.
    pub fn takes_new(&self) -> bool {
        !self.inner.closing.load(Ordering::Acquire)
    }

    /// Takes no more runs.
    pub fn refuse_new(&self) {
        self.inner.closing.store(true, Ordering::Release);
    }

    /// Takes no more runs, gives those under way this long, then interrupts them.
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
            tracing::warn!("some runs did not end in time");
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

    /// Finds a place for a run. The clock is not refused: it would not come back.
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

    /// Does the work and writes it down, to the end.
    async fn carry_out(self: Arc<Self>, live: Arc<Live>, errand: Errand) {
        let (log, writer) = log::new(&live.id, self.parts.store.clone(), live.progress.clone());
        let work = async {
            let work = AssertUnwindSafe(self.work(&live, &log, errand)).catch_unwind();
            let done = work.await;
            log.end();
            done
        };
        // Nobody could see what is not stored, so then there is no point in going on.
        let writing = async {
            writer.run().await.inspect_err(|error| {
                tracing::error!(run = live.id, %error, "the events of a run can not be stored");
                live.stop.cancel();
            })
        };
        let (done, written) = tokio::join!(work, writing);
        let (outcome, session) = match (done, written) {
            (Ok(done), Ok(())) => done,
            (Ok(_), Err(error)) => (Outcome::failed("store_error", error.to_string()), None),
            (Err(_), _) => {
                tracing::error!(run = live.id, "a run panicked");
                let message = "this is a bug in hermes: the run ended unexpectedly";
                (Outcome::failed("internal", message), None)
            }
        };
        let outcome = outcome.considering(&live, self.stop.is_cancelled());
        let end = outcome.end(&live.id, session);
        if let Err(error) = self.parts.store.finish_run(&live.id, &end).await {
            tracing::error!(run = live.id, %error, "the end of a run can not be stored");
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
