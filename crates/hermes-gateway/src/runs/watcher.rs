//! Follows the events of a run: stored ones first, then live ones.

use std::collections::VecDeque;

use hermes_store::{
    StoreError,
    runtime::{RunEvent, RuntimeStore},
};
use tokio::sync::watch;

use super::log::RunProgress;

/// How many events are read at once.
const PAGE_SIZE: u32 = 200;

/// A watcher of a run. It reads from the store, so a slow watcher blocks nobody.
pub struct RunWatcher {
    store: RuntimeStore,
    run: String,
    after: i64,
    /// None if the run ended before.
    progress: Option<watch::Receiver<RunProgress>>,
    buffered: VecDeque<RunEvent>,
}

impl RunWatcher {
    pub(super) fn new(
        store: RuntimeStore,
        run: &str,
        after: i64,
        progress: Option<watch::Receiver<RunProgress>>,
    ) -> Self {
        Self {
            store,
            run: run.to_owned(),
            after,
            progress,
            buffered: VecDeque::new(),
        }
    }

    /// The next event, or `None` when the run is over. May be dropped and called again.
    pub async fn next(&mut self) -> Result<Option<RunEvent>, StoreError> {
        loop {
            if let Some(event) = self.buffered.pop_front() {
                self.after = event.seq;
                return Ok(Some(event));
            }
            // Read before the store: events stored later are announced again.
            let is_over = match &mut self.progress {
                Some(progress) => progress.borrow_and_update().is_over,
                None => true,
            };
            let page = self
                .store
                .run_events_after(&self.run, self.after, PAGE_SIZE);
            self.buffered = page.await?.into();
            if !self.buffered.is_empty() {
                continue;
            }
            if is_over {
                return Ok(None);
            }
            if let Some(progress) = &mut self.progress
                && progress.changed().await.is_err()
            {
                self.progress = None;
            }
        }
    }
}
