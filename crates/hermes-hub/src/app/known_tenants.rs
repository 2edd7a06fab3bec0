//! Tenants that were looked up before. They are good until the database changes, in whatever way.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwapOption;
use serde_json::value::RawValue;

use crate::{Problem, TenantId, service::documents::Standing, state::TenantRecord};

/// So many are kept; beyond that all are looked up anew.
const ROOM: usize = 16_384;

/// A tenant as it was looked up, and as it was shown.
pub(crate) struct KnownTenant {
    record: TenantRecord,
    /// What many ask for again and again is put together once.
    shown: ArcSwapOption<Shown>,
}

struct Shown {
    /// The documents in force then.
    under: Arc<Standing>,
    document: Arc<RawValue>,
}

impl KnownTenant {
    pub(super) fn new(record: TenantRecord) -> Self {
        Self {
            record,
            shown: ArcSwapOption::empty(),
        }
    }

    /// Its document under the documents in force. It is made if these have changed since.
    pub(crate) fn shown(
        &self,
        standing: Arc<Standing>,
        make: impl FnOnce(&TenantRecord, &Standing) -> Result<Arc<RawValue>, Problem>,
    ) -> Result<Arc<RawValue>, Problem> {
        if let Some(shown) = &*self.shown.load()
            && Arc::ptr_eq(&shown.under, &standing)
        {
            return Ok(Arc::clone(&shown.document));
        }
        let document = make(&self.record, &standing)?;
        self.shown.store(Some(Arc::new(Shown {
            under: standing,
            document: Arc::clone(&document),
        })));
        Ok(document)
    }
}

impl Deref for KnownTenant {
    type Target = TenantRecord;

    fn deref(&self) -> &TenantRecord {
        &self.record
    }
}

/// Tenants as they were when the database had changed so many times.
#[derive(Default)]
pub(super) struct KnownTenants(Mutex<Known>);

#[derive(Default)]
struct Known {
    changes: u64,
    tenants: HashMap<TenantId, Arc<KnownTenant>>,
}

impl KnownTenants {
    /// A tenant, if it is known as of this number of changes.
    pub(super) fn recall(&self, id: &TenantId, changes: u64) -> Option<Arc<KnownTenant>> {
        let known = self.known();
        let tenant = known.tenants.get(id).filter(|_| known.changes == changes);
        tenant.cloned()
    }

    /// Keeps a tenant that was looked up when there had been so many changes, or even later.
    pub(super) fn keep(&self, tenant: &Arc<KnownTenant>, changes: u64) {
        let mut known = self.known();
        if known.changes < changes || known.tenants.len() >= ROOM {
            known.tenants.clear();
            known.changes = known.changes.max(changes);
        }
        if known.changes == changes {
            known.tenants.insert(tenant.id.clone(), Arc::clone(tenant));
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
