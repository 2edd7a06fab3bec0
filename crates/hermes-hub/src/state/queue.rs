//! Runs that wait for their turn, and those that this node works on.

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{RunRecord, RunUpdated, StateError};
use crate::{RunId, TenantId};

/// The queues of all tenants.
#[async_trait]
pub trait Queue {
    /// Takes the tenant's oldest waiting run for this node, unless `most` are under way.
    async fn claim_run(
        &self,
        tenant: &TenantId,
        most: u32,
    ) -> Result<Option<RunRecord>, StateError>;

    /// Tenants in whose queues something waits, those that wait longest first.
    async fn waiting_tenants(&self, most: u32) -> Result<Vec<TenantId>, StateError>;

    /// Runs that this node has claimed and that have not ended.
    async fn claimed_runs(&self) -> Result<Vec<RunRecord>, StateError>;

    /// Puts a run that was cut off back into the queue, at its old place, with one more attempt. Its event says
    /// why.
    async fn requeue_run(
        &self,
        tenant: &TenantId,
        id: &RunId,
        why: Map<String, Value>,
    ) -> Result<RunUpdated, StateError>;
}
