//! File operations, which no transaction covers: the intent is recorded before and the outcome after; and disk usage.

use async_trait::async_trait;

use super::StateError;
use crate::{
    GroupId, TenantId,
    api_types::{AuditEntry, AuditPhase},
    storage::audit::NewAuditEntry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UsageOwner {
    Tenant(TenantId),
    Group(GroupId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageUsage {
    pub bytes: u64,
    pub files: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TotalUsage {
    pub tenants: StorageUsage,
    pub groups: StorageUsage,
}

/// Space reserved for a write.
#[derive(Debug, Clone)]
pub struct SpaceReservation {
    pub owner: UsageOwner,
    pub bytes: u64,
    pub files: u64,
    /// The quota; `None` is unlimited.
    pub max_bytes: Option<u64>,
    /// The quota of files.
    pub max_files: Option<u64>,
}

/// An operation to be started.
#[derive(Debug, Clone)]
pub struct NewFileOperation {
    pub entry: NewAuditEntry,
    pub reserve: Option<SpaceReservation>,
}

/// An operation in progress. It must be finished, whatever the outcome is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an operation that is not finished counts as interrupted"]
pub struct FileOperation {
    /// Its entry in this node's chain.
    pub seq: u64,
}

/// The outcome of an operation.
#[derive(Debug, Clone)]
pub struct FileOutcome {
    /// With the final status.
    pub entry: NewAuditEntry,
    /// Whose space it has changed, and how much that is now.
    pub used: Option<(UsageOwner, StorageUsage)>,
}

#[async_trait]
pub trait FileOperationStore {
    /// Records an intent and reserves space for it.
    async fn begin_file_operation(
        &self,
        intent: NewFileOperation,
    ) -> Result<FileOperation, StateError>;

    /// Writes down what came of it and the space it takes, in one commit.
    async fn finish_file_operation(
        &self,
        intent: FileOperation,
        effect: FileOutcome,
    ) -> Result<(), StateError>;

    /// Operations of this node that were started and not finished.
    async fn unfinished_file_operations(&self) -> Result<Vec<AuditEntry>, StateError>;

    /// Records the outcome of an interrupted operation: `Done`, or `Interrupted` if it is unknown.
    async fn settle_file_operation(
        &self,
        intent: FileOperation,
        phase: AuditPhase,
    ) -> Result<(), StateError>;

    async fn usage(&self, owner: &UsageOwner) -> Result<StorageUsage, StateError>;

    async fn total_usage(&self) -> Result<TotalUsage, StateError>;

    /// The largest first.
    async fn usages(&self, most: u32) -> Result<Vec<(UsageOwner, StorageUsage)>, StateError>;

    /// Sets the measured usage of an owner.
    async fn set_usage(&self, owner: &UsageOwner, usage: StorageUsage) -> Result<(), StateError>;
}
