//! The Hub's state, behind one trait per subject, with one database for all of them.
//!
//! Whatever changes something on somebody's behalf takes an audit entry along and commits it in the same transaction,
//! so that there is neither an effect without its entry nor an entry without its effect. Other nodes may use the same
//! database: nothing is remembered in the process, except what [`State::changes_of`] keeps current.

use async_trait::async_trait;

use crate::{Problem, ProblemCode, TenantId, storage::audit::NewAuditEntry};

mod approvals;
mod audit;
mod cron;
mod documents;
mod env;
mod files;
mod groups;
mod idempotency;
mod mcp_sessions;
mod page;
mod runs;
mod sqlite;
mod tenants;
mod tokens;

pub use approvals::{ApprovalQuery, ApprovalStore, CarriedDecision, NewApproval, NewDecision};
pub use audit::{
    AUDIT_PORTION, AuditOrder, AuditQuery, AuditStore, BrokenEntry, ChainCheck, ChainHead,
};
pub use cron::{CronStore, DueJob, FileVersion, Fire, FireOutcome, JobDueTime, JobFile, NewFire};
pub use documents::{AppliedCounts, Document, DocumentKind, DocumentStore};
pub use env::{EnvStore, NewVariable};
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
pub use runs::{
    NewEvent, NewRun, RunChange, RunEventPage, RunQuery, RunQueueStore, RunRecord, RunStore,
    RunUpdate, RunUpdated,
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

/// Errors of the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("there is no such {what}")]
    NotFound {
        /// `tenant`, `group` and so on.
        what: &'static str,
    },
    #[error("the {what} `{name}` exists already; choose another name")]
    Exists {
        /// `tenant`, `group` and so on.
        what: &'static str,
        name: String,
    },
    /// The current state does not allow it.
    #[error("{message}")]
    Conflict {
        /// A stable word.
        reason: &'static str,
        message: String,
    },
    /// Changed since the caller read it.
    #[error("the {what} was changed meanwhile; read it again and repeat the change")]
    Changed {
        /// `tenant`, `group` and so on.
        what: &'static str,
    },
    /// A full queue, or too many sessions.
    #[error("{message}")]
    TooMany { message: String },
    #[error("{message}")]
    OverQuota { message: String },
    #[error("the cursor does not belong to this list; start without one")]
    BadCursor,
    /// The database is locked or unreachable: a retry may help.
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    #[error("the disk is full: {0}")]
    DiskFull(String),
    /// The database is corrupt, or a query failed.
    #[error("{0}")]
    Broken(String),
}

impl StateError {
    pub(crate) fn broken(error: impl std::fmt::Display) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<StateError> for Problem {
    fn from(error: StateError) -> Self {
        match error {
            StateError::NotFound { .. } => Problem::not_found(error.to_string()),
            StateError::Exists { .. } => {
                Problem::new(ProblemCode::AlreadyExists, error.to_string())
            }
            StateError::Conflict { reason, message } => {
                Problem::precondition(message).with_reason(reason)
            }
            StateError::Changed { .. } => {
                Problem::new(ProblemCode::PreconditionFailed, error.to_string())
            }
            StateError::TooMany { message } => {
                Problem::new(ProblemCode::ResourceExhausted, message)
                    .with_reason("concurrency")
                    .with_retry_after(1000)
            }
            StateError::OverQuota { message } => {
                Problem::new(ProblemCode::OutOfSpace, message).with_reason("quota")
            }
            StateError::BadCursor => Problem::invalid(error.to_string()),
            StateError::Unavailable(cause) => {
                tracing::warn!(%cause, "database unavailable");
                Problem::new(
                    ProblemCode::Unavailable,
                    "the Hub's database does not answer; try again",
                )
                .with_retry_after(1000)
            }
            StateError::DiskFull(cause) => {
                tracing::warn!(%cause, "disk full");
                Problem::new(
                    ProblemCode::OutOfSpace,
                    "the Hub's disk is full; its operator must make room",
                )
                .with_reason("disk_full")
            }
            StateError::Broken(cause) => Problem::internal(&cause),
        }
    }
}
