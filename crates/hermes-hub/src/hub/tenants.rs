//! Tenants, and those that were looked up before. Each is good until it changes; changes of others do not matter. Where
//! other nodes write too, a request first learns what they have changed, when its token is checked.

use std::{
    collections::HashMap,
    ops::Deref,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use hermes_config::{
    Home,
    sync::{Mutex, MutexGuard},
};
use serde_json::value::RawValue;

use super::{Hub, provisioning::ProvisioningHomes};
use crate::{
    Problem, TenantId,
    storage::state::{ChangeCount, TenantRecord},
    tenants::{documents::EffectiveDocuments, lookup::tenant_home},
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

/// What is known of tenants: their records, the documents that hold for them, and which homes are being created.
pub(super) struct KnownTenants {
    cache: TenantCache,
    documents: Arc<ArcSwap<EffectiveDocuments>>,
    /// The count of their changes when they were read.
    documents_read_at: AtomicU64,
    provisioning: ProvisioningHomes,
}

impl KnownTenants {
    pub(super) fn new(documents: Arc<ArcSwap<EffectiveDocuments>>) -> Self {
        Self {
            cache: TenantCache::default(),
            documents,
            documents_read_at: AtomicU64::new(0),
            provisioning: ProvisioningHomes::default(),
        }
    }
}

impl Hub {
    pub(crate) fn provisioning(&self) -> &ProvisioningHomes {
        &self.0.tenants.provisioning
    }

    /// The effective policy, configuration and specialization.
    pub(crate) fn effective_documents(&self) -> Arc<EffectiveDocuments> {
        self.0.tenants.documents.load_full()
    }

    /// Replaces the effective documents, unless the given ones are older: callers may arrive out of order.
    pub(crate) fn set_effective_documents(&self, effective_documents: EffectiveDocuments) {
        let effective_documents = Arc::new(effective_documents);
        self.0.tenants.documents.rcu(|current| {
            let newest = if effective_documents.is_older_than(current) {
                current
            } else {
                &effective_documents
            };
            Arc::clone(newest)
        });
    }

    /// A tenant, deleted ones too, as it is now.
    pub(crate) async fn tenant(&self, id: &TenantId) -> Result<Option<Arc<CachedTenant>>, Problem> {
        self.state().catch_up().await?;
        self.known_tenant(id).await
    }

    /// A tenant as it was when this process last learned what others have changed, or later. The documents that hold for
    /// it are as new.
    pub(crate) async fn known_tenant(
        &self,
        id: &TenantId,
    ) -> Result<Option<Arc<CachedTenant>>, Problem> {
        self.follow_documents().await?;
        // Before the look: what changes meanwhile makes it a look at the past.
        let changes = self.state().changes_of(id);
        let known = changes.and_then(|changes| self.0.tenants.cache.get(id, changes));
        if known.is_some() {
            return Ok(known);
        }
        let tenant = self.state().tenant(id).await?;
        let tenant = tenant.map(|record| Arc::new(CachedTenant::new(record)));
        if let (Some(tenant), Some(changes)) = (&tenant, changes) {
            self.0.tenants.cache.insert(tenant, changes);
        }
        Ok(tenant)
    }

    /// Reads the documents again if another node has changed them.
    async fn follow_documents(&self) -> Result<(), Problem> {
        let Some(changes) = self.state().document_changes() else {
            return Ok(());
        };
        let read_at = &self.0.tenants.documents_read_at;
        if read_at.load(Ordering::SeqCst) != changes {
            self.read_documents_again().await?;
            read_at.fetch_max(changes, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Keeps a tenant as a change has left it, so that it need not be looked up again. The count is the one before that
    /// change.
    pub(crate) fn keep_changed(
        &self,
        record: TenantRecord,
        before: Option<ChangeCount>,
    ) -> Arc<CachedTenant> {
        let after = self.state().changes_of(&record.id);
        let tenant = Arc::new(CachedTenant::new(record));
        if let (Some(before), Some(after)) = (before, after)
            && after.is_one_change_after(before)
        {
            self.0.tenants.cache.insert(&tenant, after);
        }
        tenant
    }

    /// Where a tenant's files are.
    pub fn home(&self, tenant: &TenantRecord) -> Home {
        tenant_home(&self.0.settings.load(), tenant)
    }

    pub(crate) fn tenant_directory(&self, id: &TenantId) -> PathBuf {
        self.settings().data_dir.join("tenants").join(id.as_str())
    }
}
