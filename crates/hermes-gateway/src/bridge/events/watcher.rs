//! The task that keeps the log up to date: watches the files of the databases, scans after writes, on request, and
//! at intervals.

use std::{sync::Arc, time::Duration};

use hermes_config::Home;
use hermes_store::{
    StoreError,
    runtime::{EventLog, LogEnd, LogLimits, LogStorage},
};
use notify::{RecursiveMode, Watcher as _};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::sleep,
};

use super::{Cursor, EventLimits, FeedState, event, tail::EventTail};

/// How often to scan without reliable file events.
const POLL_INTERVAL: Duration = Duration::from_millis(150);
/// How often to scan with file events. A scan is cheap, but it is the only idle load.
const POLL_INTERVAL_WITH_FILE_EVENTS: Duration = Duration::from_secs(1);
/// The pause after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The WAL is written shortly before the commit becomes visible.
const COMMIT_RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(4),
    Duration::from_millis(8),
];

pub(super) struct LogWatcher {
    home: Home,
    limits: EventLimits,
    /// What a new log begins with, in seconds since 1970.
    since: f64,
    /// Whether conversations without a platform are logged.
    logs_own_platforms: bool,
    shared: Arc<FeedState>,
    requests: mpsc::Receiver<oneshot::Sender<()>>,
    waiters: Vec<oneshot::Sender<()>>,
    log: Option<EventLog>,
    /// The end of a deleted log.
    end: Option<LogEnd>,
    /// Whether the tail is behind the log.
    is_behind: bool,
    /// What was last warned about.
    warned: Option<String>,
}

/// What triggered a scan.
enum ScanCause {
    Written,
    Interval,
    Requested,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanResult {
    Change,
    Nothing,
    Failure,
}

impl LogWatcher {
    pub(super) fn new(
        home: Home,
        limits: EventLimits,
        since: f64,
        shared: Arc<FeedState>,
        asked: mpsc::Receiver<oneshot::Sender<()>>,
    ) -> Self {
        Self {
            home,
            limits,
            since,
            logs_own_platforms: false,
            shared,
            requests: asked,
            waiters: Vec::new(),
            log: None,
            end: None,
            is_behind: true,
            warned: None,
        }
    }

    /// Whether conversations without a platform are logged.
    pub(super) fn with_own_platforms(self, logs_own_platforms: bool) -> Self {
        Self {
            logs_own_platforms,
            ..self
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
        let mut scan = self.scan().await;
        let files = early.unwrap_or_else(|| FileWatch::new(&self.home));
        let mut are_files_heard = false;
        loop {
            let pause = match scan {
                ScanResult::Failure => RETRY_DELAY,
                ScanResult::Change | ScanResult::Nothing if are_files_heard => {
                    POLL_INTERVAL_WITH_FILE_EVENTS
                }
                ScanResult::Change | ScanResult::Nothing => POLL_INTERVAL,
            };
            let cause = tokio::select! {
                () = files.wait_for_write() => ScanCause::Written,
                () = sleep(pause) => ScanCause::Interval,
                asked = self.requests.recv() => match asked {
                    Some(asked) => {
                        self.waiters.push(asked);
                        ScanCause::Requested
                    }
                    // All handles are dropped.
                    None => return,
                },
            };
            scan = self.scan().await;
            match cause {
                ScanCause::Written => {
                    are_files_heard = true;
                    scan = self.scan_until_commit(scan).await;
                }
                // A file event should have reported this change.
                ScanCause::Interval if scan == ScanResult::Change => are_files_heard = false,
                ScanCause::Interval | ScanCause::Requested => {}
            }
        }
    }

    /// Scans repeatedly after a write, until the commit is visible.
    async fn scan_until_commit(&mut self, mut scan: ScanResult) -> ScanResult {
        for pause in COMMIT_RETRY_DELAYS {
            if scan == ScanResult::Change {
                break;
            }
            sleep(pause).await;
            scan = self.scan().await;
        }
        scan
    }

    /// Scans once, for all pending requests.
    async fn scan(&mut self) -> ScanResult {
        while let Ok(asked) = self.requests.try_recv() {
            self.waiters.push(asked);
        }
        let waiting = std::mem::take(&mut self.waiters);
        let scan = match self.try_scan().await {
            Ok(scan) => {
                self.warned = None;
                scan
            }
            Err(error) => {
                self.warn(&error);
                ScanResult::Failure
            }
        };
        for asked in waiting {
            let _ = asked.send(());
        }
        scan
    }

    async fn try_scan(&mut self) -> Result<ScanResult, StoreError> {
        self.close_deleted_log().await?;
        if self.log.is_none() {
            self.log = Some(self.open_log().await?);
        }
        let Some(log) = &mut self.log else {
            return Ok(ScanResult::Failure);
        };
        let looked = log.poll().await;
        // Other processes may have written to the log, even if our own scan failed.
        self.is_behind |= !matches!(looked, Ok(false));
        if self.is_behind {
            self.catch_up().await?;
            self.is_behind = false;
        }
        Ok(if looked? {
            ScanResult::Change
        } else {
            ScanResult::Nothing
        })
    }

    /// Closes a log that was deleted or replaced. The next one continues its cursors.
    async fn close_deleted_log(&mut self) -> Result<(), StoreError> {
        let Some(log) = self.log.as_mut().filter(|log| log.is_file_replaced()) else {
            return Ok(());
        };
        self.end = Some(log.end().await?);
        tracing::warn!("`runtime.db` was deleted or replaced; starting a new event log");
        if let Some(log) = self.log.take() {
            log.close().await;
        }
        Ok(())
    }

    async fn open_log(&self) -> Result<EventLog, StoreError> {
        let limits = LogLimits {
            max_events: self.limits.max_events,
            max_age: self.limits.max_age,
        };
        let (log, keeping) = EventLog::open(&self.home, limits).await?;
        let mut log = log
            .with_own_platforms(self.logs_own_platforms)
            .since(self.since);
        if let LogStorage::Memory(error) = keeping {
            tracing::warn!(
                %error,
                "event log is in memory only; make the home directory writable to persist it"
            );
        }
        if let Some(end) = &self.end {
            log.continue_after(end).await?;
        }
        *self.shared.lock_log() = Some(log.runtime().clone());
        Ok(log)
    }

    /// Reads new events of the log into the tail and wakes waiters.
    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let Some(log) = &self.log else {
            return Ok(());
        };
        let is_first = self.shared.newest.borrow().is_none();
        let known = self.shared.lock_tail().last();
        let after = if is_first {
            // Only the end is needed.
            i64::MAX
        } else {
            known.into_stored()
        };
        let page = log
            .runtime()
            .events_after(after, None, EventTail::LENGTH + 1)
            .await?;
        let last = Cursor::from_stored(page.last);
        {
            let mut tail = self.shared.lock_tail();
            if is_first || page.events.len() > EventTail::LENGTH || last < known {
                // More than fits: the rest is read from the database on request.
                tail.begin_after(last);
                tail.extend(Vec::new(), page.oldest.map(Cursor::from_stored), last);
            } else {
                let oldest = page.oldest.map(Cursor::from_stored);
                tail.extend(event::parse_events(page.events), oldest, last);
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

/// A file watcher on the databases of a home. Dropping it ends the watch.
#[derive(Debug)]
pub(super) struct FileWatch {
    written: Arc<Notify>,
    _watcher: Option<notify::RecommendedWatcher>,
}

impl FileWatch {
    /// Starts watching. Without file events (some network drives) it never fires.
    pub(super) fn new(home: &Home) -> Self {
        let written = Arc::new(Notify::new());
        let heard = Arc::clone(&written);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An error, such as a queue overflow, may hide any event.
            let Ok(event) = event else {
                heard.notify_one();
                return;
            };
            let is_ours = |path: &std::path::PathBuf| {
                path.file_name()
                    .and_then(|name| name.to_str())
                    .is_some_and(is_database)
            };
            let is_write = !event.kind.is_access() && event.paths.iter().any(is_ours);
            if is_write || event.need_rescan() {
                heard.notify_one();
            }
        });
        // The directory, since files are created and removed.
        let watcher = watcher.and_then(|mut watcher| {
            watcher.watch(home.path(), RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        Self {
            written,
            _watcher: watcher
                .inspect_err(|error| tracing::debug!(%error, "file events are not available; polling the databases"))
                .ok(),
        }
    }

    /// Resolves when something was written since the last call.
    pub(super) async fn wait_for_write(&self) {
        self.written.notified().await;
    }
}

/// The databases and SQLite's own files. A commit writes the WAL, or removes the journal.
fn is_database(name: &str) -> bool {
    ["state.db", "runtime.db"]
        .iter()
        .filter_map(|database| name.strip_prefix(database))
        .any(|rest| matches!(rest, "" | "-wal" | "-journal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_commit_writes_is_heard() {
        for name in ["state.db", "state.db-wal", "runtime.db-journal"] {
            assert!(is_database(name), "{name}");
        }
        for name in ["state.db-shm", "state.db.bak-20260101", "config.yaml"] {
            assert!(!is_database(name), "{name}");
        }
    }
}
