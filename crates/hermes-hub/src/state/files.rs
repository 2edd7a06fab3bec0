//! File operations, which no transaction covers: the intent is recorded before and the outcome after; and disk usage.

use async_trait::async_trait;

use super::StateError;
use crate::{
    GroupId, TenantId,
    audit::NewEntry,
    shapes::{AuditEntry, AuditPhase},
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    Tenant(TenantId),
    Group(GroupId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub bytes: u64,
    pub files: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TotalUsage {
    pub tenants: Usage,
    pub groups: Usage,
}

/// Space reserved for a write.
#[derive(Debug, Clone)]
pub struct Reserve {
    pub owner: Owner,
    pub bytes: u64,
    pub files: u64,
    /// The quota; `None` is unlimited.
    pub most_bytes: Option<u64>,
    /// The quota of files.
    pub most_files: Option<u64>,
}

/// An operation to be started.
#[derive(Debug, Clone)]
pub struct FileIntent {
    pub entry: NewEntry,
    pub reserve: Option<Reserve>,
}

/// An operation in progress. It must be finished, whatever the outcome is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an operation that is not finished counts as interrupted"]
pub struct Intent {
    /// Its entry in this node's chain.
    pub seq: u64,
}

/// The outcome of an operation.
#[derive(Debug, Clone)]
pub struct FileEffect {
    /// With the final status.
    pub entry: NewEntry,
    /// Whose space it has changed, and how much that is now.
    pub used: Option<(Owner, Usage)>,
}

#[async_trait]
pub trait FileOperations {
    /// Records an intent and reserves space for it.
    async fn begin_files(&self, intent: FileIntent) -> Result<Intent, StateError>;

    /// Writes down what came of it and the space it takes, in one commit.
    async fn finish_files(&self, intent: Intent, effect: FileEffect) -> Result<(), StateError>;

    /// Operations of this node that were started and not finished.
    async fn unfinished_files(&self) -> Result<Vec<AuditEntry>, StateError>;

    /// Records the outcome of an interrupted operation: `Done`, or `Interrupted` if it is unknown.
    async fn settle_files(&self, intent: Intent, phase: AuditPhase) -> Result<(), StateError>;

    async fn usage(&self, owner: &Owner) -> Result<Usage, StateError>;

    async fn total_usage(&self) -> Result<TotalUsage, StateError>;

    /// The largest first.
    async fn usages(&self, most: u32) -> Result<Vec<(Owner, Usage)>, StateError>;

    /// Sets the measured usage of an owner.
    async fn set_usage(&self, owner: &Owner, usage: Usage) -> Result<(), StateError>;
}
