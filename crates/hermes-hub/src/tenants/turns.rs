//! Turns of tenants: what must not happen at the same time for one tenant happens one after the other.

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::Arc,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Problem, TenantId};

/// Several tenants may share a turn.
const STRIPES: usize = 64;

pub(crate) struct TenantTurns(Vec<Arc<Semaphore>>);

/// It is a tenant's turn until this is gone.
#[must_use]
pub(crate) struct TenantTurn {
    _permit: OwnedSemaphorePermit,
}

impl Default for TenantTurns {
    fn default() -> Self {
        Self((0..STRIPES).map(|_| Arc::new(Semaphore::new(1))).collect())
    }
}

impl TenantTurns {
    /// Returns when it is this caller's turn.
    pub(crate) async fn take(&self, tenant: &TenantId) -> Result<TenantTurn, Problem> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(tenant);
        let stripe = usize::try_from(hash % STRIPES as u64).unwrap_or_default();
        let turn = Arc::clone(&self.0[stripe]).acquire_owned().await;
        turn.map(|permit| TenantTurn { _permit: permit })
            .map_err(|error| Problem::internal(&error))
    }
}
