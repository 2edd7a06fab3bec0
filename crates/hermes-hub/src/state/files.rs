//! Operations on files, which no transaction covers: first what is about to be done, then what was; and the disk
//! space they take.

use async_trait::async_trait;

use super::StateError;
use crate::{
    GroupId, TenantId,
    audit::NewEntry,
    shapes::{AuditEntry, AuditPhase},
};

/// Whose disk space.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A tenant's home.
    Tenant(TenantId),
    /// A group's share.
    Group(GroupId),
}

/// Disk space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

/// Disk space of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TotalUsage {
    /// The homes of tenants.
    pub tenants: Usage,
    /// The shares of groups.
    pub groups: Usage,
}

/// Room to be kept free for a write.
#[derive(Debug, Clone)]
pub struct Reserve {
    /// Whose.
    pub owner: Owner,
    /// How much it may grow.
    pub bytes: u64,
    /// How many files may come.
    pub files: u64,
    /// How much there may be at all; none means any number.
    pub most_bytes: Option<u64>,
    /// How many files there may be at all.
    pub most_files: Option<u64>,
}

/// What is about to be done.
#[derive(Debug, Clone)]
pub struct FileIntent {
    /// For the log.
    pub entry: NewEntry,
    /// The room it needs.
    pub reserve: Option<Reserve>,
}

/// An operation under way. Finish it, whatever became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an operation that is not finished counts as interrupted"]
pub struct Intent {
    /// Its entry in the log of this node.
    pub seq: u64,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct FileEffect {
    /// For the log, with the status it ended with.
    pub entry: NewEntry,
    /// Whose space it has changed, and how much that is now.
    pub used: Option<(Owner, Usage)>,
}

/// Operations on files.
#[async_trait]
pub trait FileOperations {
    /// Writes down an intent and keeps room for it.
    async fn begin_files(&self, intent: FileIntent) -> Result<Intent, StateError>;

    /// Writes down what came of it and the space it takes, in one commit.
    async fn finish_files(&self, intent: Intent, effect: FileEffect) -> Result<(), StateError>;

    /// Operations of this node that were begun and not finished.
    async fn unfinished_files(&self) -> Result<Vec<AuditEntry>, StateError>;

    /// Writes down what became of an operation that was cut off: `Done`, or `Interrupted` where nobody can tell.
    async fn settle_files(&self, intent: Intent, phase: AuditPhase) -> Result<(), StateError>;

    /// The space an owner takes.
    async fn usage(&self, owner: &Owner) -> Result<Usage, StateError>;

    /// What all owners take together.
    async fn total_usage(&self) -> Result<TotalUsage, StateError>;

    /// What owners take, the largest first.
    async fn usages(&self, most: u32) -> Result<Vec<(Owner, Usage)>, StateError>;

    /// Sets the space an owner takes, after it was measured.
    async fn set_usage(&self, owner: &Owner, usage: Usage) -> Result<(), StateError>;
}
