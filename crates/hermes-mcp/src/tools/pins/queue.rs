//! The pins as a running host uses them: servers that come up together read the file once, unless it changes, and share
//! writes.

use std::{io, sync::Arc};

use hermes_config::{
    Home, ServerName,
    server::PinTools,
    sync::{Mutex, MutexGuard},
};
use tokio::sync::oneshot;

use super::{PinComparison, PinFile, PinState, Pins, file::FileVersion};
use crate::tools::catalog::Catalog;

/// The pins of a host, and the listings that wait to be compared with them.
pub(crate) struct PinQueue {
    pins: Pins,
    state: Mutex<PinQueueState>,
}

#[derive(Default)]
struct PinQueueState {
    waiting: Vec<PinRequest>,
    has_worker: bool,
    /// How many listings are still to come.
    expected: usize,
    /// The file as it was last read, while listings are expected.
    file: Option<(FileVersion, Arc<PinFile>)>,
    #[cfg(test)]
    writes: usize,
    #[cfg(test)]
    reads: usize,
}

/// A server whose listing is to be compared soon. The file is kept for as long as there is one.
pub(crate) struct ExpectedListing {
    queue: Arc<PinQueue>,
}

impl Drop for ExpectedListing {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.expected -= 1;
        if state.expected == 0 {
            state.file = None;
        }
    }
}

struct PinRequest {
    server: ServerName,
    catalog: Arc<Catalog>,
    mode: PinTools,
    reply: oneshot::Sender<io::Result<PinComparison>>,
}

impl PinQueue {
    pub(crate) fn new(home: &Home) -> Self {
        Self {
            pins: Pins::for_home(home),
            state: Mutex::new(PinQueueState::default()),
        }
    }

    /// Announces a listing.
    pub(crate) fn expect(self: &Arc<Self>) -> ExpectedListing {
        self.lock().expected += 1;
        ExpectedListing {
            queue: self.clone(),
        }
    }

    /// Compares a listing, accepts tools that were never seen, and, under `pin_tools: warn`, those that have changed.
    pub(crate) async fn compare_and_pin(
        self: &Arc<Self>,
        server: ServerName,
        catalog: Arc<Catalog>,
        mode: PinTools,
    ) -> io::Result<PinComparison> {
        let (reply, answer) = oneshot::channel();
        let needs_worker = {
            let mut state = self.lock();
            state.waiting.push(PinRequest {
                server,
                catalog,
                mode,
                reply,
            });
            !std::mem::replace(&mut state.has_worker, true)
        };
        if needs_worker {
            let queue = self.clone();
            // Whoever finds nobody at work does the work of all who come meanwhile.
            let worked = tokio::task::spawn_blocking(move || queue.drain_queue()).await;
            if let Err(panic) = worked {
                let mut state = self.lock();
                state.has_worker = false;
                state.waiting.clear();
                drop(state);
                return Err(io::Error::other(panic));
            }
        }
        answer
            .await
            .unwrap_or_else(|_| Err(io::Error::other("comparing the tools was cancelled")))
    }

    /// Compares a listing before it is published, and accepts at once what was never seen: what changes a moment
    /// later has changed, too.
    pub(crate) fn compare_now(
        &self,
        server: &ServerName,
        catalog: &Catalog,
    ) -> io::Result<PinComparison> {
        let file = self.cached_file()?;
        let comparison = file.compare(server, &catalog.tools)?;
        if !comparison.new.is_empty() {
            let tools = catalog.tools.iter();
            let new = tools.filter(|tool| comparison.new.contains(&tool.name));
            self.lock().file = None;
            if let Err(error) = self.pins.accept(server, new) {
                tracing::warn!(server = %server, %error, "failed to pin tools");
            }
        }
        Ok(comparison)
    }

    /// The file as it is now.
    fn cached_file(&self) -> io::Result<Arc<PinFile>> {
        // Before it is read: a file that is replaced meanwhile is read again the next time.
        let version = FileVersion::of(&self.pins.path);
        if let Some((kept, file)) = &self.lock().file
            && Some(kept) == version.as_ref()
        {
            return Ok(file.clone());
        }
        let file = Arc::new(PinFile::read(&self.pins.path)?);
        let mut state = self.lock();
        #[cfg(test)]
        {
            state.reads += 1;
        }
        state.file = version
            .filter(|_| state.expected > 0)
            .map(|version| (version, file.clone()));
        Ok(file)
    }

    fn drain_queue(&self) {
        loop {
            let listings = {
                let mut state = self.lock();
                let listings = std::mem::take(&mut state.waiting);
                if listings.is_empty() {
                    state.has_worker = false;
                    return;
                }
                listings
            };
            self.compare_all(listings);
        }
    }

    fn compare_all(&self, listings: Vec<PinRequest>) {
        let file = self.cached_file();
        let mut unaccepted = Vec::new();
        for listing in listings {
            let compared = match &file {
                Ok(file) => file.compare(&listing.server, &listing.catalog.tools),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            match compared {
                Ok(comparison) if listing.is_accepted_by(&comparison) => {
                    let _ = listing.reply.send(Ok(comparison));
                }
                Err(error) => {
                    let _ = listing.reply.send(Err(error));
                }
                Ok(_) => unaccepted.push(listing),
            }
        }
        if !unaccepted.is_empty() {
            self.accept_all(unaccepted);
        }
    }

    fn accept_all(&self, listings: Vec<PinRequest>) {
        self.lock().file = None;
        // Compared once more under the lock: another process may have changed the file.
        let changed = self.pins.update(|file| {
            let mut comparisons = Vec::with_capacity(listings.len());
            for PinRequest {
                server,
                catalog,
                mode,
                ..
            } in &listings
            {
                let comparison = file.compare(server, &catalog.tools)?;
                let tools = catalog.tools.iter();
                let accepted = tools.filter(|tool| match comparison.state(&tool.name) {
                    PinState::New => true,
                    PinState::Changed => *mode == PinTools::Warn,
                    PinState::Pinned => false,
                });
                file.accept(server, accepted)?;
                comparisons.push(comparison);
            }
            Ok(comparisons)
        });
        #[cfg(test)]
        {
            self.lock().writes += 1;
        }
        match changed {
            Ok(comparisons) => {
                for (listing, comparison) in listings.into_iter().zip(comparisons) {
                    let _ = listing.reply.send(Ok(comparison));
                }
            }
            Err(error) => {
                for listing in listings {
                    let same = io::Error::new(error.kind(), error.to_string());
                    let _ = listing.reply.send(Err(same));
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn count_reads(&self) -> usize {
        self.lock().reads
    }

    #[cfg(test)]
    pub(super) fn count_writes(&self) -> usize {
        self.lock().writes
    }

    fn lock(&self) -> MutexGuard<'_, PinQueueState> {
        self.state.lock()
    }
}

impl PinRequest {
    /// Whether the file holds all that it should of this server.
    fn is_accepted_by(&self, comparison: &PinComparison) -> bool {
        comparison.new.is_empty() && (comparison.changed.is_empty() || self.mode != PinTools::Warn)
    }
}
