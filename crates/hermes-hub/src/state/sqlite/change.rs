//! A change under way, and the number of changes so far.

use std::{
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use hermes_store::db::GroupWrite;
use sqlx::SqliteConnection;

use super::{StateError, unwritable};
use crate::audit::Link;

/// How often the database was changed through this process.
#[derive(Debug, Default)]
pub(super) struct Changes {
    count: AtomicU64,
    /// Whether a change was left while it was being committed, so that nobody knows when it takes effect.
    is_uncertain: AtomicBool,
}

impl Changes {
    /// Another number after every change; `None` where that can not be said.
    pub(super) fn count(&self) -> Option<u64> {
        let count = self.count.load(Ordering::Acquire);
        (!self.is_uncertain.load(Ordering::Acquire)).then_some(count)
    }
}

/// A transaction. Whatever becomes of it, it counts as a change when it is over.
pub(super) struct Change<'a> {
    write: GroupWrite<'a>,
    counted: Counted<'a>,
}

struct Counted<'a> {
    changes: &'a Changes,
    is_committing: bool,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if self.is_committing {
            self.changes.is_uncertain.store(true, Ordering::Release);
        }
        self.changes.count.fetch_add(1, Ordering::AcqRel);
    }
}

impl<'a> Change<'a> {
    pub(super) fn new(write: GroupWrite<'a>, changes: &'a Changes) -> Self {
        let counted = Counted {
            changes,
            is_committing: false,
        };
        Self { write, counted }
    }

    /// The end of the audit log's chain, if somebody before has left it here in the same transaction.
    pub(super) fn take_link(&mut self) -> Option<Link> {
        let note = self.write.note().take()?;
        note.downcast().ok().map(|link| *link)
    }

    /// Leaves it to whoever is next in the same transaction.
    pub(super) fn leave_link(&mut self, link: Link) {
        *self.write.note() = Some(Box::new(link));
    }
}

/// Makes a change last.
pub(super) async fn commit(change: Change<'_>) -> Result<(), StateError> {
    let Change { write, mut counted } = change;
    counted.is_committing = true;
    let committed = write.commit().await;
    counted.is_committing = false;
    committed.map_err(unwritable)
}

impl Deref for Change<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.write
    }
}

impl DerefMut for Change<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.write
    }
}
