//! Tenants that were looked up before. Each is good until it changes; changes of others do not matter.

use std::{collections::HashMap, ops::Deref, sync::Arc};

use arc_swap::ArcSwapOption;
use hermes_config::sync::{Mutex, MutexGuard};
use serde_json::value::RawValue;

use crate::{
    Problem, TenantId,
    service::documents::EffectiveDocuments,
    storage::state::{ChangeCount, TenantRecord},
};

/// When this is exceeded the cache is cleared.
const MAX_CACHED_TENANTS: usize = 16_384;

/// A tenant's record and its rendered document.
pub(crate) struct CachedTenant {
    record: TenantRecord,
    /// Rendered once, because many requests ask for it.
    rendered: ArcSwapOption<RenderedTenant>,
}

struct RenderedTenant {
    /// The documents in force then.
    documents: Arc<EffectiveDocuments>,
    document: Arc<RawValue>,
}

impl CachedTenant {
    pub(super) fn new(record: TenantRecord) -> Self {
        Self {
            record,
            rendered: ArcSwapOption::empty(),
        }
    }

    /// The tenant's document under the effective documents, rendered again if those have changed.
    pub(crate) fn rendered(
        &self,
        effective_documents: Arc<EffectiveDocuments>,
        make: impl FnOnce(&TenantRecord, &EffectiveDocuments) -> Result<Arc<RawValue>, Problem>,
    ) -> Result<Arc<RawValue>, Problem> {
        if let Some(shown) = &*self.rendered.load()
            && Arc::ptr_eq(&shown.documents, &effective_documents)
        {
            return Ok(Arc::clone(&shown.document));
        }
        let document = make(&self.record, &effective_documents)?;
        self.rendered.store(Some(Arc::new(RenderedTenant {
            documents: effective_documents,
            document: Arc::clone(&document),
        })));
        Ok(document)
    }
}

impl Deref for CachedTenant {
    type Target = TenantRecord;

    fn deref(&self) -> &TenantRecord {
        &self.record
    }
}

/// Tenants, each with the count of its changes when it was looked up.
#[derive(Default)]
pub(super) struct TenantCache(Mutex<HashMap<TenantId, (ChangeCount, Arc<CachedTenant>)>>);

impl TenantCache {
    /// A tenant, if nothing of it has changed since it was looked up.
    pub(super) fn get(&self, id: &TenantId, now: ChangeCount) -> Option<Arc<CachedTenant>> {
        let known = self.lock();
        let (read_at, tenant) = known.get(id)?;
        now.vouches_for(*read_at).then(|| Arc::clone(tenant))
    }

    /// Keeps a tenant that was looked up at this count, or even later.
    pub(super) fn insert(&self, tenant: &Arc<CachedTenant>, read_at: ChangeCount) {
        let mut known = self.lock();
        let is_later = |(other, _): &(ChangeCount, _)| read_at.is_before(*other);
        if known.get(&tenant.id).is_some_and(is_later) {
            return;
        }
        if known.len() >= MAX_CACHED_TENANTS {
            known.clear();
        }
        known.insert(tenant.id.clone(), (read_at, Arc::clone(tenant)));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, (ChangeCount, Arc<CachedTenant>)>> {
        self.0.lock()
    }
}
