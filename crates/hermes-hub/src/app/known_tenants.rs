//! Tenants that were looked up before. Each is good until it changes; changes of others do not matter.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwapOption;
use serde_json::value::RawValue;

use crate::{
    Problem, TenantId,
    service::documents::Standing,
    state::{ChangeCount, TenantRecord},
};

/// When this is exceeded the cache is cleared.
const ROOM: usize = 16_384;

/// A tenant's record and its rendered document.
pub(crate) struct KnownTenant {
    record: TenantRecord,
    /// Rendered once, because many requests ask for it.
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

    /// The tenant's document under the effective documents, rendered again if those have changed.
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

/// Tenants, each with the count of its changes when it was looked up.
#[derive(Default)]
pub(super) struct KnownTenants(Mutex<HashMap<TenantId, (ChangeCount, Arc<KnownTenant>)>>);

impl KnownTenants {
    /// A tenant, if nothing of it has changed since it was looked up.
    pub(super) fn recall(&self, id: &TenantId, now: ChangeCount) -> Option<Arc<KnownTenant>> {
        let known = self.known();
        let (read_at, tenant) = known.get(id)?;
        now.vouches_for(*read_at).then(|| Arc::clone(tenant))
    }

    /// Keeps a tenant that was looked up at this count, or even later.
    pub(super) fn keep(&self, tenant: &Arc<KnownTenant>, read_at: ChangeCount) {
        let mut known = self.known();
        let is_later = |(other, _): &(ChangeCount, _)| read_at.is_before(*other);
        if known.get(&tenant.id).is_some_and(is_later) {
            return;
        }
        if known.len() >= ROOM {
            known.clear();
        }
        known.insert(tenant.id.clone(), (read_at, Arc::clone(tenant)));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<TenantId, (ChangeCount, Arc<KnownTenant>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
