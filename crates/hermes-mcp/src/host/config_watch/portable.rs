//! Events of files by the crate `notify`, which has a thread for them.

use std::{ffi::OsString, io, path::Path};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// Events of some files of a directory.
pub(super) struct NotifyFileEvents {
    events: mpsc::Receiver<()>,
    /// Kept alive: dropping it ends the events.
    _watcher: RecommendedWatcher,
}

impl NotifyFileEvents {
    /// Begins to watch.
    pub(super) fn new(home: &Path, names: Vec<OsString>) -> io::Result<Self> {
        // One slot: an event that finds it full says nothing new.
        let (sender, events) = mpsc::channel(1);
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
        let mut watcher = watcher.map_err(io::Error::other)?;
        watcher
            .watch(home, RecursiveMode::NonRecursive)
            .map_err(io::Error::other)?;
        Ok(Self {
            events,
            _watcher: watcher,
        })
    }

    /// Resolves when one of the files may have changed; fails when there will be no more events.
    pub(super) async fn wait_for_event(&mut self) -> io::Result<()> {
        let event = self.events.recv().await;
        event.ok_or_else(|| io::Error::other("the watcher has ended"))
    }
}
