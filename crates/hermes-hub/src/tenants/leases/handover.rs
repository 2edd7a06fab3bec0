//! Handing a tenant over while requests come: those that work on its home are waited for, and later ones wait until the
//! tenant has left, so that none is refused.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::Leases;
use crate::TenantId;

/// A request works on a tenant's home. The tenant is not handed over before it is gone.
pub struct HomeUse {
    leases: Arc<Leases>,
    tenant: TenantId,
}

impl Drop for HomeUse {
    fn drop(&mut self) {
        let mut states = self.leases.states.lock();
        if let Some(count) = states.uses.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                states.uses.remove(&self.tenant);
                self.leases.use_ended.notify_waiters();
            }
        }
    }
}

/// A tenant that is being handed over, until this is gone.
pub struct TenantHandover {
    leases: Arc<Leases>,
    tenant: TenantId,
    over: watch::Sender<bool>,
}

impl Drop for TenantHandover {
    fn drop(&mut self) {
        self.leases.states.lock().handovers.remove(&self.tenant);
        let _ = self.over.send(true);
    }
}

impl Leases {
    /// Begins work on a home, if this node has it.
    pub fn use_home(self: &Arc<Self>, tenant: &TenantId) -> Option<HomeUse> {
        if !self.is_mine(tenant) {
            return None;
        }
        let mut states = self.states.lock();
        if states.handovers.contains_key(tenant) {
            return None;
        }
        *states.uses.entry(tenant.clone()).or_default() += 1;
        Some(HomeUse {
            leases: Arc::clone(self),
            tenant: tenant.clone(),
        })
    }

    /// Begins to hand a tenant over: no work begins on its home, and what goes on gets this long. `None` if somebody
    /// else does that.
    pub async fn start_handover(
        self: &Arc<Self>,
        tenant: &TenantId,
        timeout: Duration,
    ) -> Option<TenantHandover> {
        let (over, is_over) = watch::channel(false);
        {
            let mut states = self.states.lock();
            if states.handovers.contains_key(tenant) {
                return None;
            }
            states.handovers.insert(tenant.clone(), is_over);
        }
        let handover = TenantHandover {
            leases: Arc::clone(self),
            tenant: tenant.clone(),
            over,
        };
        let unused = async {
            loop {
                let ended = self.use_ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                if !self.states.lock().uses.contains_key(tenant) {
                    return;
                }
                ended.await;
            }
        };
        if tokio::time::timeout(timeout, unused).await.is_err() {
            tracing::warn!(%tenant, "requests did not end before the lease ended; their writes are refused");
        }
        Some(handover)
    }

    /// Returns when a tenant is not being handed over, at once for most.
    pub async fn wait_until_left(&self, tenant: &TenantId) {
        let handover = self.states.lock().handovers.get(tenant).cloned();
        if let Some(mut handover) = handover {
            let _ = handover.wait_for(|is_over| *is_over).await;
        }
    }
}
