//! Locks of tenants: what must not happen at the same time for one tenant happens one after the other.

use std::sync::Arc;

use hermes_config::sync::stripe_index;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Problem, TenantId};

/// Several tenants may share a lock.
const STRIPES: usize = 64;

pub(crate) struct TenantLocks(Vec<Arc<Semaphore>>);

/// A tenant is locked until this is gone.
#[must_use]
pub(crate) struct TenantLockGuard {
    _permit: OwnedSemaphorePermit,
}

impl Default for TenantLocks {
    fn default() -> Self {
        Self((0..STRIPES).map(|_| Arc::new(Semaphore::new(1))).collect())
    }
}

impl TenantLocks {
    /// Returns when this caller has the lock.
    pub(crate) async fn lock(&self, tenant: &TenantId) -> Result<TenantLockGuard, Problem> {
        let permit = Arc::clone(&self.0[stripe_index(tenant, STRIPES)])
            .acquire_owned()
            .await;
        permit
            .map(|permit| TenantLockGuard { _permit: permit })
            .map_err(|error| Problem::internal(&error))
    }
}
