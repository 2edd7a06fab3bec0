//! Checkpoints of homes: which one a node that takes a tenant's lease has to restore. Their contents are in object
//! storage.

use async_trait::async_trait;

use super::{LeaseEpoch, StateError};
use crate::{TenantId, api_types::Time};

/// Which checkpoint of a home. Later ones compare as greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId {
    pub epoch: LeaseEpoch,
    /// From 1 in each epoch.
    pub seq: u64,
}

impl std::fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.epoch.0, self.seq)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRow {
    pub id: CheckpointId,
    pub node: String,
    /// Of the manifest's object.
    pub manifest_sha256: String,
    pub files: u64,
    pub bytes: u64,
    pub created_at: Time,
}

#[derive(Debug, Clone)]
pub struct NewCheckpoint {
    pub tenant: TenantId,
    pub tenant_uid: String,
    pub id: CheckpointId,
    pub manifest_sha256: String,
    pub files: u64,
    pub bytes: u64,
}

#[async_trait]
pub trait CheckpointStore: Send + Sync + 'static {
    /// All checkpoints of a home, the newest first.
    async fn checkpoints(&self, tenant_uid: &str) -> Result<Vec<CheckpointRow>, StateError>;

    async fn latest_checkpoint(
        &self,
        tenant_uid: &str,
    ) -> Result<Option<CheckpointRow>, StateError>;

    /// Makes a checkpoint the latest one. Refused with the reason `lease_lost`, unless this node holds the tenant's
    /// lease under the checkpoint's epoch.
    async fn record_checkpoint(&self, checkpoint: &NewCheckpoint) -> Result<(), StateError>;

    async fn forget_checkpoints(
        &self,
        tenant_uid: &str,
        ids: &[CheckpointId],
    ) -> Result<(), StateError>;

    /// Homes whose tenants are gone.
    async fn abandoned_checkpoints(&self) -> Result<Vec<String>, StateError>;
}
