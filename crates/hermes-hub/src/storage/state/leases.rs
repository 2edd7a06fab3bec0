//! Leases: which node works for a tenant. A Hub with its own database is the only node and holds every lease without
//! storing it; that is what the default methods say.
//!
//! A lease has an epoch, which grows each time a node takes it. What the holder writes is fenced: its transaction locks
//! the lease's row and finds there its own node and epoch, not expired by the database's clock. To take a lease, a
//! node locks the row against that. So no write of an epoch is accepted after the first one of the next, whatever
//! the clocks of the nodes say and however long a node was stopped in between.

use std::time::Duration;

use async_trait::async_trait;

use super::{RunRecord, StateError};
use crate::{RunId, TenantId, api_types::Time, storage::audit::NewAuditEntry};

/// The reason of a conflict when a node writes for a tenant whose lease it does not hold.
pub const LEASE_LOST: &str = "lease_lost";

/// Grows each time a lease is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseEpoch(pub u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedLease {
    pub tenant: TenantId,
    pub epoch: LeaseEpoch,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseHolder {
    pub node: String,
    pub epoch: LeaseEpoch,
}

/// What the holder of a tenant's lease has to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldTenant {
    pub tenant: TenantId,
    pub generation: u64,
    pub is_blocked: bool,
    pub is_deleted: bool,
}

/// What a node tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    pub version: String,
    pub started_at: Time,
    /// How many tenants it works for by itself.
    pub capacity: u32,
}

/// What the database tells a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeartbeatReply {
    /// Whether somebody wants it drained.
    pub is_draining: bool,
    /// The time by which jobs are due, whatever the clocks of nodes say; the node's own if absent.
    pub database_time: Option<Time>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    pub id: String,
    pub version: String,
    pub started_at: Time,
    /// By the database's clock, as all ages here.
    pub seen_at: Time,
    pub unseen_for: Duration,
    pub capacity: u32,
    pub is_draining: bool,
    /// Tenants whose lease it holds.
    pub tenants: u64,
}

#[async_trait]
pub trait LeaseStore: Send + Sync {
    /// Whether other nodes use the same database.
    fn has_other_nodes(&self) -> bool {
        false
    }

    /// The time by the clock of a database that nodes share.
    async fn database_time(&self) -> Result<Option<Time>, StateError> {
        Ok(None)
    }

    /// Takes leases that are free, expired, or left over from an earlier process of this node, each with the next epoch.
    /// Others that are being taken or written under are skipped.
    async fn claim_leases(
        &self,
        tenants: &[TenantId],
        _lasting: Duration,
    ) -> Result<Vec<GrantedLease>, StateError> {
        let tenants = tenants.iter().cloned();
        let epoch = LeaseEpoch(1);
        Ok(tenants
            .map(|tenant| GrantedLease { tenant, epoch })
            .collect())
    }

    /// Extends leases that have neither expired nor been taken. Returns whose.
    async fn renew_leases(
        &self,
        held: &[GrantedLease],
        _lasting: Duration,
    ) -> Result<Vec<TenantId>, StateError> {
        Ok(held.iter().map(|lease| lease.tenant.clone()).collect())
    }

    /// Gives leases up, so that another node can take them at once.
    async fn release_leases(&self, _held: &[GrantedLease]) -> Result<(), StateError> {
        Ok(())
    }

    /// Has this process write nothing more under these leases. Works without the database.
    fn forget_leases(&self, _tenants: &[TenantId]) {}

    /// The epoch of a lease that this process has taken.
    fn held_epoch(&self, _tenant: &TenantId) -> Option<LeaseEpoch> {
        Some(LeaseEpoch(1))
    }

    async fn lease_holder(&self, _tenant: &TenantId) -> Result<Option<LeaseHolder>, StateError> {
        Ok(None)
    }

    /// Tenants that have work and whose lease nobody else holds: queued or interrupted runs, due jobs, an agent with a
    /// messaging platform while the policy allows messaging.
    async fn tenants_with_work(&self, _most: u32) -> Result<Vec<TenantId>, StateError> {
        Ok(Vec::new())
    }

    /// Records whether a tenant's agent is always on where the policy allows it, so that some node holds its lease. It
    /// counts as that, too, while nobody has looked; the node that takes the lease records what it finds.
    async fn set_always_on(&self, _tenant: &TenantId, _always_on: bool) -> Result<(), StateError> {
        Ok(())
    }

    /// Claims the unfinished runs that the last holder of the tenant's lease has left.
    async fn adopt_runs(&self, _tenant: &TenantId) -> Result<Vec<RunRecord>, StateError> {
        Ok(Vec::new())
    }

    /// Runs of this node that somebody wants stopped.
    async fn stopping_runs(&self) -> Result<Vec<(TenantId, RunId)>, StateError> {
        Ok(Vec::new())
    }

    /// The tenants whose leases this node holds, as clients have set them since.
    async fn held_tenants(&self) -> Result<Vec<HeldTenant>, StateError> {
        Ok(Vec::new())
    }

    /// Records that this node works.
    async fn report_node(&self, _report: &NodeReport) -> Result<HeartbeatReply, StateError> {
        Ok(HeartbeatReply::default())
    }

    /// All nodes, also those that are gone, by id.
    async fn nodes(&self) -> Result<Vec<NodeRecord>, StateError> {
        Ok(Vec::new())
    }

    /// Has a node hand its leases over and take no new ones, until it starts again.
    async fn drain_node(&self, _id: &str, _entry: NewAuditEntry) -> Result<(), StateError> {
        Err(StateError::NotFound { what: "node" })
    }

    /// Forgets that this node should be drained: it has started again.
    async fn undrain_node(&self) -> Result<(), StateError> {
        Ok(())
    }
}
