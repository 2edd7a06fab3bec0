//! The event log of a home's conversations, with cursors that survive restarts.
//!
//! The log is in the store and shared by all bridges of a home. Here it is kept up to date (`watcher`), its
//! newest part is cached (`tail`), so that many waiting clients cost no more than one, and requests are answered.

use std::{sync::Arc, time::Duration};

use hermes_config::{
    Home,
    sync::{Mutex, MutexGuard},
};
use hermes_store::{StoreError, epoch_seconds, runtime::RuntimeStore};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

mod event;
mod tail;
mod watcher;

pub use event::{ConversationEvent, Cursor, EventKind};

use crate::platforms::PlatformFilter;
use tail::EventTail;
use watcher::LogWatcher;

/// How long a caller waits for a scan of the databases. After that it gets the last known state.
const SCAN_TIMEOUT: Duration = Duration::from_millis(500);
/// How long opening waits for the first scan, and requests wait for a log that is not open yet.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
/// Requests that wait for the same scan. Further ones wait for a slot.
const REQUEST_QUEUE: usize = 64;

/// Retention of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventLimits {
    pub max_events: usize,
    /// None older than this.
    pub max_age: Duration,
}

impl EventLimits {
    /// A smaller log would lose events between two polls.
    pub const MIN_EVENTS: usize = 1000;
}

impl Default for EventLimits {
    fn default() -> Self {
        Self {
            max_events: 10_000,
            max_age: Duration::from_hours(7 * 24),
        }
    }
}

/// Why the log could not be read.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    #[error("the event log is closed")]
    Closed,
    /// The log could not be opened yet. Opening is retried.
    #[error("the event log is not available yet; try again")]
    NotReady,
    #[error("the event log cannot be read: {0}")]
    Store(#[from] StoreError),
}

/// Part of the log, and its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPage {
    /// In the order of their cursors.
    pub events: Vec<ConversationEvent>,
    /// The lowest cursor in the log.
    pub oldest: Option<Cursor>,
    /// The highest cursor ever assigned; 0 if there was none.
    pub last: Cursor,
    /// How many events after the requested cursor were dropped.
    pub dropped: u64,
}

/// The events of a home. One per process; clones share it.
#[derive(Debug, Clone)]
pub struct EventFeed {
    shared: Arc<FeedState>,
    requests: mpsc::Sender<oneshot::Sender<()>>,
    tasks: TaskTracker,
    shown: Arc<PlatformFilter>,
}

/// What the feed and its watcher share.
#[derive(Debug)]
struct FeedState {
    tail: Mutex<EventTail>,
    /// The newest cursor; `None` before the log is open.
    newest: watch::Sender<Option<Cursor>>,
    changes: watch::Sender<Cursor>,
    /// The open log; replaced if it was deleted.
    log: Mutex<Option<RuntimeStore>>,
    closing: CancellationToken,
}

impl FeedState {
    fn lock_tail(&self) -> MutexGuard<'_, EventTail> {
        self.tail.lock()
    }

    fn lock_log(&self) -> MutexGuard<'_, Option<RuntimeStore>> {
        self.log.lock()
    }
}

impl EventFeed {
    /// Starts following a home. Waits for the first scan, so that everything written from now on becomes an event,
    /// but not for long: a locked database is retried in the background.
    pub async fn open(home: &Home, limits: EventLimits) -> Self {
        let shown = PlatformFilter::default();
        Self::open_for_platforms(home, limits, shown, epoch_seconds()).await
    }

    /// Follows these platforms. Others are logged, but filtered when reading. If there is no log yet, it begins with
    /// what was said since that moment, in seconds since 1970.
    pub async fn open_for_platforms(
        home: &Home,
        limits: EventLimits,
        shown: PlatformFilter,
        since: f64,
    ) -> Self {
        let (requests, asked) = mpsc::channel(REQUEST_QUEUE);
        let shared = Arc::new(FeedState {
            tail: Mutex::default(),
            newest: watch::Sender::new(None),
            changes: watch::Sender::new(Cursor::default()),
            log: Mutex::default(),
            closing: CancellationToken::new(),
        });
        let limits = EventLimits {
            max_events: limits.max_events.max(EventLimits::MIN_EVENTS),
            ..limits
        };
        let tasks = TaskTracker::new();
        let with_own = !shown.own_platforms().is_empty();
        let watcher = LogWatcher::new(home.clone(), limits, since, Arc::clone(&shared), asked)
            .with_own_platforms(with_own);
        tasks.spawn(watcher.run());
        let feed = Self {
            shared,
            requests,
            tasks,
            shown: Arc::new(shown),
        };
        // Not being ready is told to whoever asks.
        let _ = feed.wait_until_ready().await;
        feed
    }

    /// The current end of the log. Waits while it cannot be opened, for example because it is locked.
    pub async fn position(&self) -> Cursor {
        while let Err(EventError::NotReady) = self.request_scan().await {}
        self.shared.lock_tail().last()
    }

    /// The cursor before the first event of what has happened since that moment.
    pub(super) async fn cursor_before(&self, since: f64) -> Result<Option<Cursor>, EventError> {
        let log = self.shared.lock_log().clone().ok_or(EventError::NotReady)?;
        Ok(log.cursor_before(since).await?.map(Cursor::from_stored))
    }

    /// The newest known cursor, without a scan; `None` before the log is open.
    pub fn known_position(&self) -> Option<Cursor> {
        *self.shared.newest.borrow()
    }

    /// The events after a cursor, of one chat or of all, at most `limit`. Includes everything written before the
    /// call.
    pub async fn poll(
        &self,
        after: Cursor,
        session_key: Option<&str>,
        limit: usize,
    ) -> Result<EventPage, EventError> {
        self.request_scan().await?;
        self.read(after, session_key, limit).await
    }

    /// Waits for the next event after a cursor, of one chat or of all. Dropping this ends the
    /// wait; the caller sets the timeout.
    pub async fn wait(
        &self,
        after: Cursor,
        session_key: Option<&str>,
    ) -> Result<EventPage, EventError> {
        let mut changes = self.changes();
        let mut page = self.poll(after, session_key, 1).await?;
        let mut seen = after;
        while page.events.is_empty() {
            seen = seen.max(page.last);
            tokio::select! {
                news = changes.changed() => news.map_err(|_| EventError::Closed)?,
                () = self.shared.closing.cancelled() => return Err(EventError::Closed),
            }
            page = self.read(seen, session_key, 1).await?;
        }
        page.dropped = count_dropped(after, page.oldest, page.last);
        Ok(page)
    }

    /// Notifies of every new cursor.
    pub fn changes(&self) -> watch::Receiver<Cursor> {
        self.shared.changes.subscribe()
    }

    /// Ends the watcher and all waits, and closes the databases.
    pub async fn close(&self) {
        self.shared.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// From memory, or from the database for older events.
    async fn read(
        &self,
        after: Cursor,
        session_key: Option<&str>,
        limit: usize,
    ) -> Result<EventPage, EventError> {
        let is_wanted = |event: &ConversationEvent| {
            session_key.is_none_or(|key| event.session_key == key)
                && self.shown.shows_key(&event.session_key)
        };
        if let Some(page) = self.shared.lock_tail().page(after, is_wanted, limit) {
            return Ok(page);
        }
        let log = self.shared.lock_log().clone().ok_or(EventError::NotReady)?;
        let mut events = Vec::new();
        let mut from = after.into_stored();
        loop {
            let page = log.events_after(from, session_key, limit).await?;
            let (oldest, last) = (
                page.oldest.map(Cursor::from_stored),
                Cursor::from_stored(page.last),
            );
            let is_end = page.events.len() < limit;
            from = page.events.last().map_or(from, |event| event.cursor);
            let read = event::parse_events(page.events).into_iter();
            events.extend(read.filter(is_wanted));
            if is_end || events.len() >= limit {
                events.truncate(limit);
                return Ok(EventPage {
                    events,
                    oldest,
                    last,
                    dropped: count_dropped(after, oldest, last),
                });
            }
        }
    }

    /// Requests a scan, so that the answer is not older than the request.
    async fn request_scan(&self) -> Result<(), EventError> {
        self.wait_until_ready().await?;
        let (done, looked) = oneshot::channel();
        let look = async {
            if self.requests.send(done).await.is_ok() {
                // The watcher drops this when the scan fails; it logs the failure.
                let _ = looked.await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(SCAN_TIMEOUT, look) => Ok(()),
            () = self.shared.closing.cancelled() => Err(EventError::Closed),
        }
    }

    async fn wait_until_ready(&self) -> Result<(), EventError> {
        let mut newest = self.shared.newest.subscribe();
        let ready = async { newest.wait_for(Option::is_some).await.is_ok() };
        tokio::select! {
            ready = tokio::time::timeout(OPEN_TIMEOUT, ready) => match ready {
                Ok(true) => Ok(()),
                Ok(false) => Err(EventError::Closed),
                Err(_) => Err(EventError::NotReady),
            },
            () = self.shared.closing.cancelled() => Err(EventError::Closed),
        }
    }
}

/// How many events after a cursor were dropped: they are dropped from the start, and cursors have no gaps.
fn count_dropped(after: Cursor, oldest: Option<Cursor>, last: Cursor) -> u64 {
    let next = oldest.map_or(last.0 + 1, |oldest| oldest.0);
    next.saturating_sub(after.0 + 1)
}
