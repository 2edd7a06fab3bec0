//! The task that keeps the log up to date: scans the databases after writes, on request, and
//! at intervals.

use std::{sync::Arc, time::Duration};

use hermes_config::Home;
use hermes_store::{
    StoreError,
    runtime::{EventLog, Keeping, LogEnd, LogLimits},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

use super::{Cursor, EventLimits, Shared, event, files::FileWatch, tail::Tail};

/// How often to scan without reliable file events.
const FALLBACK: Duration = Duration::from_millis(150);
/// How often to scan with file events. A scan is cheap, but it is the only idle load.
const FALLBACK_BESIDE_EVENTS: Duration = Duration::from_secs(1);
/// The pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// The WAL is written shortly before the commit becomes visible.
const AFTER_WRITE: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(4),
    Duration::from_millis(8),
];

pub(super) struct Watcher {
    home: Home,
    limits: EventLimits,
    /// Whether conversations without a platform are logged.
    with_own: bool,
    shared: Arc<Shared>,
    asked: mpsc::Receiver<oneshot::Sender<()>>,
    waiting: Vec<oneshot::Sender<()>>,
    log: Option<EventLog>,
    /// The end of a deleted log.
    end: Option<LogEnd>,
    /// Whether the tail is behind the log.
    is_behind: bool,
    /// What was last warned about.
    warned: Option<String>,
}

/// What triggered a scan.
enum Cause {
    Written,
    Time,
    Asked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Change,
    Nothing,
    Failure,
}

impl Watcher {
    pub(super) fn new(
        home: Home,
        limits: EventLimits,
        with_own: bool,
        shared: Arc<Shared>,
        asked: mpsc::Receiver<oneshot::Sender<()>>,
    ) -> Self {
        Self {
            home,
            limits,
            with_own,
            shared,
            asked,
            waiting: Vec::new(),
            log: None,
            end: None,
            is_behind: true,
            warned: None,
        }
    }

    /// Runs until the feed is closed.
    pub(super) async fn run(mut self) {
        let closing = self.shared.closing.clone();
        tokio::select! {
            () = closing.cancelled() => {}
            () = self.watch() => {}
        }
        if let Some(log) = self.log.take() {
            log.close().await;
        }
    }

    async fn watch(&mut self) {
        // Before the databases are opened, so that opening them already triggers an event.
        let early = self
            .home
            .path()
            .is_dir()
            .then(|| FileWatch::new(&self.home));
        let mut found = self.look().await;
        let files = early.unwrap_or_else(|| FileWatch::new(&self.home));
        let mut are_files_heard = false;
        loop {
            let pause = match found {
                Found::Failure => AFTER_FAILURE,
                Found::Change | Found::Nothing if are_files_heard => FALLBACK_BESIDE_EVENTS,
                Found::Change | Found::Nothing => FALLBACK,
            };
            let cause = tokio::select! {
                () = files.written() => Cause::Written,
                () = sleep(pause) => Cause::Time,
                asked = self.asked.recv() => match asked {
                    Some(asked) => {
                        self.waiting.push(asked);
                        Cause::Asked
                    }
                    // All handles are dropped.
                    None => return,
                },
            };
            found = self.look().await;
            match cause {
                Cause::Written => {
                    are_files_heard = true;
                    found = self.look_for_commit(found).await;
                }
                // A file event should have reported this change.
                Cause::Time if found == Found::Change => are_files_heard = false,
                Cause::Time | Cause::Asked => {}
            }
        }
    }

    /// Scans repeatedly after a write, until the commit is visible.
    async fn look_for_commit(&mut self, mut found: Found) -> Found {
        for pause in AFTER_WRITE {
            if found == Found::Change {
                break;
            }
            sleep(pause).await;
            found = self.look().await;
        }
        found
    }

    /// Scans once, for all pending requests.
    async fn look(&mut self) -> Found {
        while let Ok(asked) = self.asked.try_recv() {
            self.waiting.push(asked);
        }
        let waiting = std::mem::take(&mut self.waiting);
        let found = match self.try_look().await {
            Ok(found) => {
                self.warned = None;
                found
            }
            Err(error) => {
                self.warn(&error);
                Found::Failure
            }
        };
        for asked in waiting {
            let _ = asked.send(());
        }
        found
    }

    async fn try_look(&mut self) -> Result<Found, StoreError> {
        self.leave_lost_log().await?;
        if self.log.is_none() {
            self.log = Some(self.open().await?);
        }
        let Some(log) = &mut self.log else {
            return Ok(Found::Failure);
        };
        let looked = log.look().await;
        // Other processes may have written to the log, even if our own scan failed.
        self.is_behind |= !matches!(looked, Ok(false));
        if self.is_behind {
            self.catch_up().await?;
            self.is_behind = false;
        }
        Ok(if looked? {
            Found::Change
        } else {
            Found::Nothing
        })
    }

    /// Closes a log that was deleted or replaced. The next one continues its cursors.
    async fn leave_lost_log(&mut self) -> Result<(), StoreError> {
        let Some(log) = self.log.as_mut().filter(|log| log.is_lost()) else {
            return Ok(());
        };
        self.end = Some(log.end().await?);
        tracing::warn!("`runtime.db` was deleted or replaced; starting a new event log");
        if let Some(log) = self.log.take() {
            log.close().await;
        }
        Ok(())
    }

    async fn open(&self) -> Result<EventLog, StoreError> {
        let limits = LogLimits {
            most: self.limits.most,
            age: self.limits.age,
        };
        let (log, keeping) = EventLog::open(&self.home, limits).await?;
        let mut log = log.with_own(self.with_own);
        if let Keeping::Memory(error) = keeping {
            tracing::warn!(
                %error,
                "event log is in memory only; make the home directory writable to persist it"
            );
        }
        if let Some(end) = &self.end {
            log.go_on_after(end).await?;
        }
        *self.shared.log() = Some(log.runtime().clone());
        Ok(log)
    }

    /// Reads new events of the log into the tail and wakes waiters.
    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let Some(log) = &self.log else {
            return Ok(());
        };
        let is_first = self.shared.newest.borrow().is_none();
        let known = self.shared.tail().last();
        let after = if is_first {
            // Only the end is needed.
            i64::MAX
        } else {
            known.into_stored()
        };
        let page = log
            .runtime()
            .events_after(after, None, Tail::LENGTH + 1)
            .await?;
        let last = Cursor::stored(page.last);
        {
            let mut tail = self.shared.tail();
            if is_first || page.events.len() > Tail::LENGTH || last < known {
                // More than fits: the rest is read from the database on request.
                tail.begin_after(last);
                tail.extend(Vec::new(), page.oldest.map(Cursor::stored), last);
            } else {
                let oldest = page.oldest.map(Cursor::stored);
                tail.extend(event::read_all(page.events), oldest, last);
            }
        }
        self.shared.newest.send_replace(Some(last));
        self.shared.changes.send_if_modified(|newest| {
            let is_newer = *newest != last;
            *newest = last;
            is_newer
        });
        Ok(())
    }

    fn warn(&mut self, error: &StoreError) {
        let text = error.to_string();
        if self.warned.as_ref() != Some(&text) {
            tracing::warn!(%error, "event log scan failed; retrying");
            self.warned = Some(text);
        }
    }
}
