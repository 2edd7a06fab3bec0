//! Watches the databases of a home for writes.

use std::sync::Arc;

use hermes_config::Home;
use notify::{RecursiveMode, Watcher as _};
use tokio::sync::Notify;

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
