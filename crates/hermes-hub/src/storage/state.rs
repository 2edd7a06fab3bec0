//! The Hub's state, behind one trait per subject, with one database for all of them.
//!
//! Whatever changes something on somebody's behalf takes an audit entry along and commits it in the same transaction,
//! so that there is neither an effect without its entry nor an entry without its effect. Other nodes may use the same
//! database: nothing is remembered in the process, but for what [`State::changes_of`] vouches for.

use async_trait::async_trait;

use crate::{TenantId, storage::audit::NewAuditEntry};

mod approvals;
mod audit;
mod cron;
mod documents;
mod env;
mod error;
mod files;
mod groups;
mod idempotency;
mod mcp_sessions;
mod page;
mod queue;
mod runs;
mod sqlite;
mod tenants;
mod tokens;

pub use approvals::{ApprovalChoice, ApprovalQuery, ApprovalStore, CarriedDecision, NewApproval};
pub use audit::{
    AUDIT_PORTION, AuditOrder, AuditQuery, AuditStore, BrokenEntry, ChainCheck, ChainHead,
};
pub use cron::{CronStore, DueJob, FileVersion, Fire, FireOutcome, JobDueTime, JobFile, NewFire};
pub use documents::{AppliedCounts, Document, DocumentKind, DocumentStore};
pub use env::{EnvStore, NewVariable};
pub use error::StateError;
pub use files::{
    FileChange, FileOperation, FileOperationStore, FileOutcome, NewFileOperation, SpaceReservation,
    StorageUsage, TotalUsage, UnfinishedOperation, UsageOwner,
};
pub use groups::{GroupChange, GroupDeletion, GroupRecord, GroupStore};
pub use idempotency::{IdempotencyKey, IdempotencyStore, KeyClaim, StoredReply};
pub use mcp_sessions::{
    McpSession, McpSessionAdmission, McpSessionStore, McpSessionUse, SessionHash,
};
pub use page::{Page, Paged};
pub use queue::RunQueueStore;
pub use runs::{
    NewEvent, NewRun, RunChange, RunEventPage, RunQuery, RunRecord, RunStore, RunUpdate, RunUpdated,
};
pub use sqlite::SqliteState;
pub use tenants::{
    AccessChange, NewRuntimeKey, NewTenant, Propagation, TenantChange, TenantDeletion,
    TenantFilter, TenantHome, TenantObservation, TenantQuery, TenantRecord, TenantStore,
};
pub use tokens::{NewSecret, NewToken, TokenRecord, TokenStore};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionCounts {
    pub open: u64,
    pub idle: u64,
}

/// How often something was changed: what was read is good for as long as no other change has ended since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeCount {
    begun: u64,
    ended: u64,
}

impl ChangeCount {
    /// Whether what was read at that count, or later, is still good at this one.
    pub fn vouches_for(self, read_at: Self) -> bool {
        self.ended == read_at.ended
    }

    /// Whether there was a single change since then, and none other under way then or now: what that change has written
    /// is what is there.
    pub fn is_one_change_after(self, before: Self) -> bool {
        before.begun == before.ended
            && self.begun == before.begun + 1
            && self.ended == before.ended + 1
    }

    /// Whether less was over by then.
    pub fn is_before(self, other: Self) -> bool {
        self.ended < other.ended
    }
}

/// All that the Hub remembers.
#[async_trait]
pub trait State:
    TenantStore
    + EnvStore
    + GroupStore
    + TokenStore
    + DocumentStore
    + IdempotencyStore
    + McpSessionStore
    + RunStore
    + RunQueueStore
    + ApprovalStore
    + CronStore
    + FileOperationStore
    + AuditStore
    + Send
    + Sync
    + 'static
{
    async fn ping(&self) -> Result<(), StateError>;

    fn connections(&self) -> ConnectionCounts;

    /// How often a tenant's record was changed, disk space and groups included. `None` where others change it, too, or
    /// where it is not known.
    fn changes_of(&self, _: &TenantId) -> Option<ChangeCount> {
        None
    }

    async fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StateError>;

    async fn set_meta(&self, name: &str, value: &[u8]) -> Result<(), StateError>;

    /// Whether there is any encrypted value.
    async fn has_encrypted(&self) -> Result<bool, StateError>;

    /// Deletes every encrypted value after the key was lost: variables and runtime keys have to be set again.
    async fn delete_encrypted(&self, entry: NewAuditEntry) -> Result<(), StateError>;

    /// Flushes and closes the database.
    async fn close(&self);
}
