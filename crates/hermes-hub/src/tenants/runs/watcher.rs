//! Watchers of runs. Each gets the events in order and without gaps: from memory while it keeps up, otherwise from the
//! database.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures::{Stream, stream};
use hermes_config::sync::Mutex;
use tokio::sync::broadcast::{self, error::RecvError};

use super::Runs;
use crate::{Problem, RunId, TenantId, api_types::StoredEvent, storage::state::RunEventPage};

/// Events buffered for a slow watcher, which reads the database beyond that.
const CHANNEL_CAPACITY: usize = 256;

const PAGE_SIZE: u32 = 500;

/// How long a watcher waits for a notification: another node may execute the run.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq)]
pub enum RunStreamItem {
    Event(Arc<StoredEvent>),
    /// Events before this one are no longer stored.
    Gap {
        oldest: u64,
    },
}

/// A run's events until it ends.
pub type RunEventStream = Pin<Box<dyn Stream<Item = Result<RunStreamItem, Problem>> + Send>>;

#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<HashMap<RunId, broadcast::Sender<Arc<StoredEvent>>>>);

impl Watchers {
    /// Sends events to a run's watchers.
    pub(super) fn publish(&self, run: &RunId, events: &[StoredEvent]) {
        let mut watched = self.0.lock();
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

    /// Has a run's watchers read the database: their channel ends, and they open another one.
    pub(super) fn read_again(&self, run: &RunId) {
        self.0.lock().remove(run);
    }

    pub(super) fn read_all_again(&self) {
        self.0.lock().clear();
    }

    fn subscribe(&self, run: &RunId) -> broadcast::Receiver<Arc<StoredEvent>> {
        let mut watched = self.0.lock();
        // Channels that have no receivers left.
        watched.retain(|_, sender| sender.receiver_count() > 0);
        watched
            .entry(run.clone())
            .or_insert_with(|| broadcast::Sender::new(CHANNEL_CAPACITY))
            .subscribe()
    }
}

pub(super) fn watch_run(
    runs: Arc<Runs>,
    tenant: TenantId,
    run: RunId,
    after: u64,
) -> RunEventStream {
    // Subscribe before reading, so that no event is missed.
    let news = runs.watchers.subscribe(&run);
    let watcher = RunWatcher {
        runs,
        tenant,
        run,
        last: after,
        live: news,
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

struct RunWatcher {
    runs: Arc<Runs>,
    tenant: TenantId,
    run: RunId,
    /// The last event that was returned.
    last: u64,
    live: broadcast::Receiver<Arc<StoredEvent>>,
    ready: VecDeque<RunStreamItem>,
    /// Whether all stored events have been read.
    is_caught_up: bool,
    is_over: bool,
    has_begun: bool,
}

impl RunWatcher {
    async fn next(&mut self) -> Option<Result<RunStreamItem, Problem>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                if let RunStreamItem::Event(event) = &ready {
                    self.last = event.id;
                }
                return Some(Ok(ready));
            }
            if self.is_over {
                return None;
            }
            if self.is_caught_up {
                self.receive_live().await;
            } else if let Err(problem) = self.read_stored().await {
                return Some(Err(problem));
            }
        }
    }

    /// Receives a live event.
    async fn receive_live(&mut self) {
        match tokio::time::timeout(POLL_INTERVAL, self.live.recv()).await {
            Ok(Ok(event)) if event.id <= self.last => {}
            Ok(Ok(event)) if event.id == self.last + 1 => {
                self.is_over = is_final_event(&event);
                self.ready.push_back(RunStreamItem::Event(event));
            }
            Ok(Err(RecvError::Closed)) => {
                self.live = self.runs.watchers.subscribe(&self.run);
                self.is_caught_up = false;
            }
            // An event was missed, or there was no notification for a while.
            Ok(Ok(_) | Err(RecvError::Lagged(_))) | Err(_) => self.is_caught_up = false,
        }
    }

    /// Reads the next events from the database.
    async fn read_stored(&mut self) -> Result<(), Problem> {
        let page = self
            .runs
            .state
            .run_events(&self.tenant, &self.run, self.last, PAGE_SIZE)
            .await?;
        self.push_gap(&page);
        self.is_caught_up = page.events.len() < PAGE_SIZE as usize;
        self.is_over = self.is_caught_up && page.status.is_final();
        let events = page
            .events
            .into_iter()
            .map(Arc::new)
            .map(RunStreamItem::Event);
        self.ready.extend(events);
        Ok(())
    }

    fn push_gap(&mut self, page: &RunEventPage) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if let Some(oldest) = page
            .oldest
            .filter(|oldest| is_first && *oldest > self.last + 1)
        {
            self.ready.push_back(RunStreamItem::Gap { oldest });
        }
    }
}

fn is_final_event(event: &StoredEvent) -> bool {
    matches!(
        event.event.as_str(),
        "run.completed" | "run.failed" | "run.cancelled"
    )
}
