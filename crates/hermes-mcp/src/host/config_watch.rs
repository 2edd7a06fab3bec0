//! Watches `config.yaml` and `.env` of a home and tells when they have settled after a change.

use std::{path::PathBuf, time::Duration};

use hermes_config::Home;
use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// Editors write several times in a row; this much quiet ends a change.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// Where file events are not to be had, the files are looked at this often.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Reports changes of a home's configuration.
pub struct ConfigWatch {
    events: mpsc::Receiver<()>,
    files: [PathBuf; 2],
    /// Kept alive: dropping it ends the events.
    _watcher: Option<notify::RecommendedWatcher>,
    is_polling: bool,
    seen: [Option<ConfigFileVersion>; 2],
}

/// What tells one version of a file from another.
type ConfigFileVersion = (std::time::SystemTime, u64, u64);

impl ConfigWatch {
    /// Begins to watch. Without file events (some network drives) it polls.
    pub fn new(home: &Home) -> Self {
        // One slot: an event that finds it full says nothing new.
        let (sender, events) = mpsc::channel(1);
        let files = [home.config_file(), home.env_file()];
        let names: Vec<_> = files
            .iter()
            .filter_map(|file| file.file_name().map(ToOwned::to_owned))
            .collect();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            let is_ours = event.paths.iter().any(|path| {
                path.file_name()
                    .is_some_and(|name| names.iter().any(|ours| ours == name))
            });
            if is_ours && !event.kind.is_access() {
                let _ = sender.try_send(());
            }
        });
        // The directory is watched, since saving replaces the files themselves.
        let watcher = watcher.ok().and_then(|mut watcher| {
            watcher
                .watch(home.path(), RecursiveMode::NonRecursive)
                .ok()
                .map(|()| watcher)
        });
        let seen = files.each_ref().map(config_file_version);
        Self {
            events,
            is_polling: watcher.is_none(),
            _watcher: watcher,
            files,
            seen,
        }
    }

    /// Resolves when one of the files has really changed.
    pub async fn wait_for_change(&mut self) {
        loop {
            if self.is_polling {
                tokio::time::sleep(POLL_INTERVAL).await;
            } else if self.events.recv().await.is_none() {
                self.is_polling = true;
                continue;
            }
            // Wait for quiet.
            while let Ok(Some(())) = tokio::time::timeout(DEBOUNCE, self.events.recv()).await {}
            let now = self.files.each_ref().map(config_file_version);
            if now != self.seen {
                self.seen = now;
                return;
            }
        }
    }
}

fn config_file_version(path: &PathBuf) -> Option<ConfigFileVersion> {
    let metadata = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Some((metadata.modified().ok()?, metadata.len(), inode))
}
