//! Watches `config.yaml` and `.env` of a home and tells when they have settled after a change.

use std::{path::PathBuf, time::Duration};

use hermes_config::Home;
use tokio::time::{sleep, timeout};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;

#[cfg(target_os = "linux")]
use linux::InotifyFileEvents as HomeFileEvents;
#[cfg(not(target_os = "linux"))]
use portable::NotifyFileEvents as HomeFileEvents;

/// Editors write several times in a row; this much quiet ends a change.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// Where file events are not to be had, the files are looked at this often.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Reports changes of a home's configuration.
pub struct ConfigWatch {
    /// None where the files are polled.
    events: Option<HomeFileEvents>,
    files: [PathBuf; 2],
    /// Whether something has happened since the files were looked at.
    has_event: bool,
    seen: [Option<ConfigFileVersion>; 2],
}

/// What tells one version of a file from another.
type ConfigFileVersion = (std::time::SystemTime, u64, u64);

impl ConfigWatch {
    /// Begins to watch. Without file events (some network drives) it polls. It needs no runtime yet.
    pub fn new(home: &Home) -> Self {
        let files = [home.config_file(), home.env_file()];
        let names = files
            .iter()
            .filter_map(|file| file.file_name().map(ToOwned::to_owned))
            .collect();
        // The directory is watched, since saving replaces the files themselves.
        let events = HomeFileEvents::new(home.path(), names)
            .inspect_err(|error| tracing::debug!(%error, "file events are not available; polling the configuration"))
            .ok();
        let seen = files.each_ref().map(config_file_version);
        Self {
            events,
            files,
            has_event: false,
            seen,
        }
    }

    /// Resolves when one of the files has really changed. A wait that is given up loses no change.
    pub async fn wait_for_change(&mut self) {
        loop {
            if !self.has_event {
                self.wait_for_event().await;
                self.has_event = true;
            }
            self.wait_for_quiet().await;
            self.has_event = false;
            let now = self.files.each_ref().map(config_file_version);
            if now != self.seen {
                self.seen = now;
                return;
            }
        }
    }

    /// Resolves when it is worth looking at the files.
    async fn wait_for_event(&mut self) {
        let Some(events) = &mut self.events else {
            sleep(POLL_INTERVAL).await;
            return;
        };
        let event = events.wait_for_event().await;
        self.poll_after_error(event);
    }

    async fn wait_for_quiet(&mut self) {
        while let Some(events) = &mut self.events {
            let Ok(event) = timeout(DEBOUNCE, events.wait_for_event()).await else {
                return;
            };
            self.poll_after_error(event);
        }
    }

    fn poll_after_error(&mut self, event: std::io::Result<()>) {
        if let Err(error) = event {
            tracing::debug!(%error, "file events have ended; polling the configuration");
            self.events = None;
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
