//! Tenants that were looked up before. They are good until the database changes, in whatever way.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{TenantId, state::TenantRecord};

/// So many are kept; beyond that all are looked up anew.
const ROOM: usize = 16_384;

/// Tenants as they were when the database had changed so many times.
#[derive(Default)]
pub(super) struct KnownTenants(Mutex<Known>);

#[derive(Default)]
struct Known {
    changes: u64,
    records: HashMap<TenantId, Arc<TenantRecord>>,
}

impl KnownTenants {
    /// A tenant, if it is known as of this number of changes.
    pub(super) fn recall(&self, id: &TenantId, changes: u64) -> Option<Arc<TenantRecord>> {
        let known = self.known();
        let record = known.records.get(id).filter(|_| known.changes == changes);
        record.cloned()
    }

    /// Keeps a tenant that was looked up when there had been so many changes, or even later.
    pub(super) fn keep(&self, record: &Arc<TenantRecord>, changes: u64) {
        let mut known = self.known();
        if known.changes < changes || known.records.len() >= ROOM {
            known.records.clear();
            known.changes = known.changes.max(changes);
        }
        if known.changes == changes {
            known.records.insert(record.id.clone(), Arc::clone(record));
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
