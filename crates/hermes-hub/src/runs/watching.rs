//! Watchers of runs. Each gets the events in order and without gaps: from memory as long as it keeps up, from the
//! database whenever it does not.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{Stream, stream};
use tokio::sync::broadcast::{self, error::RecvError};

use super::Runs;
use crate::{Problem, RunId, TenantId, shapes::RunEvent, state::EventPage};

/// Events that wait in memory for a slow watcher. Beyond that it reads the database.
const BACKLOG: usize = 256;

/// Events that are read from the database at once.
const PAGE: u32 = 500;

/// How long a watcher trusts that it is told of everything. Another node may work on the run.
const TRUST: Duration = Duration::from_secs(2);

/// What a watcher sees.
#[derive(Debug, Clone, PartialEq)]
pub enum Watched {
    /// What happened.
    Event(Arc<RunEvent>),
    /// What came before this event is not kept any more.
    Gap {
        /// The oldest that is kept.
        oldest: u64,
    },
}

/// A run's events; ends with the run.
pub type Watching = Pin<Box<dyn Stream<Item = Result<Watched, Problem>> + Send>>;

/// Who watches which run.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<HashMap<RunId, broadcast::Sender<Arc<RunEvent>>>>);

impl Watchers {
    /// Tells those who watch a run.
    pub(super) fn tell(&self, run: &RunId, events: &[RunEvent]) {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = watched.get(run) else {
            return;
        };
        let is_watched = events
            .iter()
            .all(|event| sender.send(Arc::new(event.clone())).is_ok());
        if !is_watched || sender.receiver_count() == 0 {
            watched.remove(run);
        }
    }

    fn follow(&self, run: &RunId) -> broadcast::Receiver<Arc<RunEvent>> {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that everybody left without a word.
        watched.retain(|_, sender| sender.receiver_count() > 0);
        watched
            .entry(run.clone())
            .or_insert_with(|| broadcast::Sender::new(BACKLOG))
            .subscribe()
    }
}

pub(super) fn watch(runs: Arc<Runs>, tenant: TenantId, run: RunId, after: u64) -> Watching {
    // Before anything is read, so that nothing falls in between.
    let news = runs.watchers.follow(&run);
    let watcher = Watcher {
        runs,
        tenant,
        run,
        last: after,
        news,
        ready: VecDeque::new(),
        is_caught_up: false,
        is_over: false,
        has_begun: false,
    };
    Box::pin(stream::unfold(watcher, |mut watcher| async move {
        let next = watcher.next().await?;
        watcher.is_over |= next.is_err();
        Some((next, watcher))
    }))
}

struct Watcher {
    runs: Arc<Runs>,
    tenant: TenantId,
    run: RunId,
    /// The last event that was handed out.
    last: u64,
    news: broadcast::Receiver<Arc<RunEvent>>,
    ready: VecDeque<Watched>,
    /// Whether the next event will be news.
    is_caught_up: bool,
    is_over: bool,
    has_begun: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<Watched, Problem>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                if let Watched::Event(event) = &ready {
                    self.last = event.id;
                }
                return Some(Ok(ready));
            }
            if self.is_over {
                return None;
            }
            if self.is_caught_up {
                self.hear().await;
            } else if let Err(problem) = self.read().await {
                return Some(Err(problem));
            }
        }
    }

    /// Takes in an event that has just been stored.
    async fn hear(&mut self) {
        match tokio::time::timeout(TRUST, self.news.recv()).await {
            Ok(Ok(event)) if event.id <= self.last => {}
            Ok(Ok(event)) if event.id == self.last + 1 => {
                self.is_over = is_last(&event);
                self.ready.push_back(Watched::Event(event));
            }
            Ok(Err(RecvError::Closed)) => {
                self.news = self.runs.watchers.follow(&self.run);
                self.is_caught_up = false;
            }
            // Something was missed, or nobody has said anything for a while.
            Ok(Ok(_) | Err(RecvError::Lagged(_))) | Err(_) => self.is_caught_up = false,
        }
    }

    /// Reads on in the database.
    async fn read(&mut self) -> Result<(), Problem> {
        let page = self
            .runs
            .state
            .run_events(&self.tenant, &self.run, self.last, PAGE)
            .await?;
        self.tell_gap(&page);
        self.is_caught_up = page.events.len() < PAGE as usize;
        self.is_over = self.is_caught_up && page.status.is_final();
        let events = page.events.into_iter().map(Arc::new).map(Watched::Event);
        self.ready.extend(events);
        Ok(())
    }

    fn tell_gap(&mut self, page: &EventPage) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if let Some(oldest) = page
            .oldest
            .filter(|oldest| is_first && *oldest > self.last + 1)
        {
            self.ready.push_back(Watched::Gap { oldest });
        }
    }
}

fn is_last(event: &RunEvent) -> bool {
    matches!(
        event.event.as_str(),
        "run.completed" | "run.failed" | "run.cancelled"
    )
}
