//! Write transactions, and the number of changes.

use std::{
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use hermes_config::sync::stripe_index;
use hermes_store::db::GroupWrite;
use sqlx::SqliteConnection;

use super::{StateError, write_error};
use crate::{
    TenantId,
    storage::{
        audit::ChainPosition,
        state::{ChangeCount, batch_queue::trace_commit},
    },
};

/// Tenants share counters, so that there need not be one for each; who shares one is looked up once too often.
const COUNTERS: usize = 4096;

/// Whose record a change may make another one: a tenant's row, its groups, its disk space.
#[derive(Debug, Clone, Copy)]
pub(super) enum Affected<'a> {
    /// Nobody's.
    NoTenant,
    /// This tenant's.
    Tenant(&'a TenantId),
    /// These tenants'.
    Tenants(&'a [&'a TenantId]),
    /// Any number of tenants'.
    AllTenants,
}

/// How often tenants were changed through this process.
#[derive(Debug)]
pub(super) struct ChangeCounter {
    of_all: Counter,
    of_tenants: Box<[Counter]>,
    /// Whether a change was left while it was being committed, so that nobody knows when it takes effect.
    is_uncertain: AtomicBool,
}

#[derive(Debug, Default)]
struct Counter {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Default for ChangeCounter {
    fn default() -> Self {
        Self {
            of_all: Counter::default(),
            of_tenants: (0..COUNTERS).map(|_| Counter::default()).collect(),
            is_uncertain: AtomicBool::default(),
        }
    }
}

impl ChangeCounter {
    /// How often a tenant's record was changed; `None` where that cannot be said.
    pub(super) fn of(&self, tenant: &TenantId) -> Option<ChangeCount> {
        let own = self.counter(tenant);
        // The ends first: where both numbers are the same, nothing was under way in between.
        let ended = self.of_all.ended.load(Ordering::SeqCst) + own.ended.load(Ordering::SeqCst);
        let begun = self.of_all.begun.load(Ordering::SeqCst) + own.begun.load(Ordering::SeqCst);
        (!self.is_uncertain.load(Ordering::SeqCst)).then_some(ChangeCount { begun, ended })
    }

    fn counter(&self, tenant: &TenantId) -> &Counter {
        &self.of_tenants[stripe_index(tenant, COUNTERS)]
    }

    fn affected(&self, affected: Affected<'_>) -> Vec<&Counter> {
        match affected {
            Affected::NoTenant => Vec::new(),
            Affected::Tenant(tenant) => vec![self.counter(tenant)],
            Affected::Tenants(tenants) => tenants.iter().map(|id| self.counter(id)).collect(),
            Affected::AllTenants => vec![&self.of_all],
        }
    }
}

/// A transaction. It counts as a change when it ends, whether committed or not.
pub(super) struct WriteTransaction<'a> {
    write: GroupWrite<'a>,
    counted: ChangeGuard<'a>,
}

struct ChangeGuard<'a> {
    changes: &'a ChangeCounter,
    counters: Vec<&'a Counter>,
    is_committing: bool,
}

impl Drop for ChangeGuard<'_> {
    fn drop(&mut self) {
        if self.is_committing && !self.counters.is_empty() {
            self.changes.is_uncertain.store(true, Ordering::SeqCst);
        }
        for counter in &self.counters {
            counter.ended.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl<'a> WriteTransaction<'a> {
    pub(super) fn new(
        write: GroupWrite<'a>,
        changes: &'a ChangeCounter,
        affected: Affected<'_>,
    ) -> Self {
        let counted = ChangeGuard {
            changes,
            counters: changes.affected(affected),
            is_committing: false,
        };
        for counter in &counted.counters {
            counter.begun.fetch_add(1, Ordering::SeqCst);
        }
        Self { write, counted }
    }

    /// See [`take_link`].
    pub(super) fn take_chain_position(&mut self) -> Option<ChainPosition> {
        take_link(&mut self.write)
    }

    /// See [`leave_link`].
    pub(super) fn leave_chain_position(&mut self, link: ChainPosition) {
        leave_link(&mut self.write, link);
    }
}

/// The end of the audit log's chain, if the writer before has left it. Nobody else writes to this file, so that stays true
/// from one commit to the next.
pub(super) fn take_link(write: &mut GroupWrite<'_>) -> Option<ChainPosition> {
    let note = write.note().take()?;
    note.downcast().ok().map(|link| *link)
}

/// Leaves it to whoever writes next.
pub(super) fn leave_link(write: &mut GroupWrite<'_>, link: ChainPosition) {
    *write.note() = Some(Box::new(link));
}

/// Makes a change last.
pub(super) async fn commit(change: WriteTransaction<'_>) -> Result<(), StateError> {
    let WriteTransaction { write, mut counted } = change;
    counted.is_committing = true;
    let committed = trace_commit("sqlite", write.commit_together()).await;
    counted.is_committing = false;
    committed.map_err(write_error)
}

impl Deref for WriteTransaction<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.write
    }
}

impl DerefMut for WriteTransaction<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.write
    }
}
