//! The leases that a node holds, as far as it can know by itself: without the database and without a wall clock.
//!
//! A lease lasts from the moment at which the database was asked for it, not from the answer, so the node's view ends
//! before the database's. The node stops working a margin earlier still, which is the time to end agents.

use std::{collections::HashMap, time::Duration};

use crate::{
    TenantId,
    storage::state::{GrantedLease, LeaseEpoch},
};

/// Time since the node started, by a clock that nobody sets.
pub(super) type NodeTime = Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HeldLease {
    epoch: LeaseEpoch,
    /// It counts as expired from then on.
    until: NodeTime,
}

#[derive(Debug)]
pub(super) struct HeldLeases {
    lasting: Duration,
    leases: HashMap<TenantId, HeldLease>,
}

impl HeldLeases {
    pub(super) fn new(lasting: Duration) -> Self {
        Self {
            lasting,
            leases: HashMap::new(),
        }
    }

    pub(super) fn lasting(&self) -> Duration {
        self.lasting
    }

    /// How long before the end of its lease a tenant is stopped.
    pub(super) fn stop_margin(&self) -> Duration {
        self.lasting / 3
    }

    /// A lease was granted that was asked for at this time.
    pub(super) fn insert(&mut self, lease: &GrantedLease, asked_at: NodeTime) {
        let held = HeldLease {
            epoch: lease.epoch,
            until: asked_at + self.lasting,
        };
        self.leases.insert(lease.tenant.clone(), held);
    }

    /// A lease of this epoch was renewed, which was asked for at this time.
    pub(super) fn extend(&mut self, lease: &GrantedLease, asked_at: NodeTime) {
        if let Some(held) = self.leases.get_mut(&lease.tenant)
            && held.epoch == lease.epoch
        {
            held.until = held.until.max(asked_at + self.lasting);
        }
    }

    /// Whether the node may work for a tenant.
    pub(super) fn may_work(&self, tenant: &TenantId, now: NodeTime) -> bool {
        let held = self.leases.get(tenant);
        held.is_some_and(|held| now + self.stop_margin() < held.until)
    }

    /// When no process of a tenant may be left. Before the end of its lease, because killing takes a moment.
    pub(super) fn kill_time(&self, tenant: &TenantId) -> Option<NodeTime> {
        let held = self.leases.get(tenant)?;
        Some(held.until.saturating_sub(self.stop_margin() / 4))
    }

    pub(super) fn epoch(&self, tenant: &TenantId) -> Option<LeaseEpoch> {
        self.leases.get(tenant).map(|held| held.epoch)
    }

    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(super) fn tenants(&self) -> Vec<TenantId> {
        self.leases.keys().cloned().collect()
    }

    /// Those to be renewed: a third of the time is over.
    pub(super) fn due_for_renewal(&self, now: NodeTime) -> Vec<GrantedLease> {
        let is_due = |held: &HeldLease| now + self.lasting * 2 / 3 >= held.until;
        let due = self.leases.iter().filter(|(_, held)| is_due(held));
        due.map(|(tenant, held)| granted(tenant, *held)).collect()
    }

    /// Removes those under which the node may not work any more, each with the time that is left of it.
    pub(super) fn take_expiring(&mut self, now: NodeTime) -> Vec<(GrantedLease, Duration)> {
        let margin = self.stop_margin();
        let expiring = self
            .leases
            .extract_if(|_, held| now + margin >= held.until)
            .map(|(tenant, held)| (granted(&tenant, held), held.until.saturating_sub(now)));
        expiring.collect()
    }

    /// Removes a lease, if it is of this epoch.
    pub(super) fn remove(&mut self, lease: &GrantedLease) -> bool {
        let is_that = self.epoch(&lease.tenant) == Some(lease.epoch);
        if is_that {
            self.leases.remove(&lease.tenant);
        }
        is_that
    }

    /// Removes a tenant's lease.
    pub(super) fn take(&mut self, tenant: &TenantId) -> Option<GrantedLease> {
        let held = self.leases.remove(tenant)?;
        Some(granted(tenant, held))
    }
}

fn granted(tenant: &TenantId, held: HeldLease) -> GrantedLease {
    GrantedLease {
        tenant: tenant.clone(),
        epoch: held.epoch,
    }
}
