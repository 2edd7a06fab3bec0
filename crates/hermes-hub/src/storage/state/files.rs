//! File operations, which no transaction covers: the intent is recorded before and the outcome after; and disk usage.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::StateError;
use crate::{GroupId, TenantId, api_types::AuditPhase, storage::audit::NewAuditEntry};

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

/// What an operation changes: what is read after a crash, to remove its temporary files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FileChange {
    /// A path of a group's files, written in the directory it is in.
    Share { group: GroupId, path: String },
    /// The jobs or the settings in a tenant's home.
    Home { tenant: TenantId },
    /// Files below a directory of a tenant's home.
    HomeFiles { tenant: TenantId, directory: String },
    /// A copy outside of homes and shares, which the next copy cleans up.
    Copy,
}

/// An operation to be started.
#[derive(Debug, Clone)]
pub struct NewFileOperation {
    pub entry: NewAuditEntry,
    pub change: FileChange,
    pub reserve: Option<SpaceReservation>,
}

/// An operation in progress. It must be finished, whatever the outcome is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an operation that is not finished counts as interrupted"]
pub struct FileOperation {
    /// Its entry in this node's chain.
    pub seq: u64,
}

/// An operation that was started and neither finished nor cleaned up after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedOperation {
    pub operation: FileOperation,
    /// Absent if an earlier version did not say it.
    pub change: Option<FileChange>,
    /// Whether the audit log says how it ended.
    pub is_settled: bool,
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

    /// Operations of this node that were started and not finished, oldest first.
    async fn unfinished_file_operations(&self) -> Result<Vec<UnfinishedOperation>, StateError>;

    /// Records the outcome of an interrupted operation: `Done`, or `Interrupted` if it is unknown. It stays unfinished
    /// until it is forgotten.
    async fn settle_file_operation(
        &self,
        intent: FileOperation,
        phase: AuditPhase,
    ) -> Result<(), StateError>;

    /// Forgets a settled operation, when what it left is cleaned up.
    async fn forget_file_operation(&self, intent: FileOperation) -> Result<(), StateError>;

    async fn usage(&self, owner: &UsageOwner) -> Result<StorageUsage, StateError>;

    async fn total_usage(&self) -> Result<TotalUsage, StateError>;

    /// The largest first.
    async fn usages(&self, most: u32) -> Result<Vec<(UsageOwner, StorageUsage)>, StateError>;

    /// Sets the measured usage of an owner.
    async fn set_usage(&self, owner: &UsageOwner, usage: StorageUsage) -> Result<(), StateError>;
}
