//! The drafts that show answers which go on, by their numbers.

use std::{collections::HashSet, sync::Arc};

use hermes_config::sync::Mutex;
use hermes_store::epoch_seconds;

/// The numbers of drafts are below this: some programs of Telegram's may have 32 bits for them.
const NUMBER_LIMIT: i64 = 1 << 30;

#[derive(Default)]
pub(super) struct OpenDrafts {
    drafts: Mutex<DraftNumbers>,
}

#[derive(Default)]
struct DraftNumbers {
    open: HashSet<i64>,
    last: Option<i64>,
}

/// A draft for as long as its answer goes on.
pub(super) struct OpenDraft {
    pub(super) id: i64,
    all: Arc<OpenDrafts>,
}

impl OpenDrafts {
    /// A draft with a number that none had before, not even in an earlier process. It is never 0.
    pub(super) fn open(self: &Arc<Self>) -> OpenDraft {
        let mut drafts = self.drafts.lock();
        let last = drafts.last.unwrap_or_else(number_of_now);
        let id = last % NUMBER_LIMIT + 1;
        drafts.last = Some(id);
        drafts.open.insert(id);
        drop(drafts);
        OpenDraft {
            id,
            all: Arc::clone(self),
        }
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.drafts.lock().open.contains(&id)
    }
}

impl Drop for OpenDraft {
    fn drop(&mut self) {
        self.all.drafts.lock().open.remove(&self.id);
    }
}

/// Larger than the numbers of earlier processes, unless they opened more than one draft in a second all the time.
fn number_of_now() -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "whole seconds are enough")]
    let seconds = epoch_seconds() as i64;
    seconds % NUMBER_LIMIT
}
