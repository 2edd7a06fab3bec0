//! Queued runs, and those that this node has claimed.

use async_trait::async_trait;

use super::{RunRecord, RunUpdated, StateError};
use crate::{RunId, TenantId};

#[async_trait]
pub trait RunQueueStore {
    /// Claims the tenant's oldest queued run for this node, unless `most` are active.
    async fn claim_run(
        &self,
        tenant: &TenantId,
        most: u32,
    ) -> Result<Option<RunRecord>, StateError>;

    /// Tenants with queued runs, those that wait longest first.
    async fn waiting_tenants(&self, most: u32) -> Result<Vec<TenantId>, StateError>;

    /// Unfinished runs that this node has claimed.
    async fn claimed_runs(&self) -> Result<Vec<RunRecord>, StateError>;

    /// Puts an interrupted run back into the queue, at its old position, with one more attempt.
    /// The reason is one word, the message is for people.
    async fn requeue_run(
        &self,
        tenant: &TenantId,
        id: &RunId,
        reason: &str,
        message: Option<String>,
    ) -> Result<RunUpdated, StateError>;
}
