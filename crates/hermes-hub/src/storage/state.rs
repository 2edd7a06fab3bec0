//! The Hub's state, behind one trait per subject, with one database for all of them.
//!
//! Whatever changes something on somebody's behalf takes an audit entry along and commits it in the same transaction,
//! so that there is neither an effect without its entry nor an entry without its effect. Other nodes may use the same
//! database: nothing is remembered in the process, except what [`State::catch_up`] and the counts of changes keep current.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Problem, ProblemCode, TenantId,
    api_types::{ReachedLimit, Time},
    storage::audit::NewAuditEntry,
};

mod approvals;
mod audit;
mod batch_queue;
mod checkpoints;
mod columns;
mod console_sessions;
mod cron;
mod documents;
mod env;
mod files;
mod groups;
mod hub_events;
mod idempotency;
mod leases;
mod mcp_sessions;
mod notices;
mod open;
mod overview;
mod page;
mod postgres;
mod records;
mod runs;
mod share_index;
mod skill_library;
mod sqlite;
mod tables;
mod tenant_updates;
mod tenants;
mod tokens;
mod usage;
mod webhooks;

pub use approvals::{ApprovalQuery, ApprovalStore, CarriedDecision, NewApproval, NewDecision};
pub use audit::{
    AUDIT_PORTION, AuditOrder, AuditPart, AuditPoint, AuditQuery, AuditStore, BrokenEntry,
    ChainCheck, ChainHead,
};
pub use checkpoints::{CheckpointId, CheckpointRow, CheckpointStore, NewCheckpoint};
pub use console_sessions::{
    ConsoleSession, ConsoleSessionStore, NewConsoleSession, SessionHolder, SignedInPerson,
};
pub use cron::{
    CronStore, DueJob, FileVersion, Fire, FireOutcome, JobDueTime, JobFile, JobSelection, NewFire,
    NextJobTime,
};
pub use documents::{AppliedCounts, Document, DocumentKind, DocumentStore};
pub use env::{EnvStore, NewVariable};
pub use files::{
    FileChange, FileOperation, FileOperationStore, FileOutcome, NewFileOperation, SpaceReservation,
    StorageUsage, TotalUsage, UnfinishedOperation, UsageOwner,
};
pub use groups::{GroupChange, GroupDeletion, GroupRecord, GroupStore};
pub use hub_events::{HubEventQuery, HubEventRange, HubEventStore, NEAR_QUOTA, NewHubEvent};
pub use idempotency::{IdempotencyKey, IdempotencyStore, KeyClaim, StoredReply};
pub use leases::{
    GrantedLease, HeartbeatReply, HeldTenant, LEASE_LOST, LeaseEpoch, LeaseHolder, LeaseStore,
    NodeRecord, NodeReport,
};
pub use mcp_sessions::{
    McpSession, McpSessionAdmission, McpSessionStore, McpSessionUse, SessionHash,
};
pub use notices::{CommandStore, NodeCommand, Notice, NoticeStore};
pub use open::{OpenedState, StateOpenError};
pub use overview::{EndedRun, OverviewStore, TenantWithConditions};
pub use page::{Page, Paged};
pub use postgres::{
    DatabasePosition, PostgresOpenError, PostgresOptions, PostgresState, TablesFound,
};
pub use runs::{
    NewEvent, NewRun, RunChange, RunEventPage, RunQuery, RunQueueStore, RunRecord, RunStore,
    RunUpdate, RunUpdated,
};
pub use share_index::{
    BlobRef, IndexedContent, IndexedEntry, IndexedUsage, RemovedEntry, ShareIndexChange,
    ShareIndexStore,
};
pub use skill_library::{
    LibrarySkillRecord, NewLibrarySkill, ProvidedSkillStore, SkillLibraryStore, SkillRevisions,
};
pub use sqlite::SqliteState;
pub use tables::CopiedTable;
pub use tenants::{
    AccessChange, NewRuntimeKey, NewTenant, Propagation, TenantChange, TenantDeletion,
    TenantFilter, TenantHome, TenantObservation, TenantQuery, TenantRecord, TenantStore,
};
pub use tokens::{NewSecret, NewToken, TokenRecord, TokenStore};
pub use usage::{LimitChange, UsageQuery, UsageStore, UsageSum};
pub use webhooks::{
    AttemptResult, ClaimedDelivery, NewWebhook, NextAttempt, WebhookChange, WebhookRecord,
    WebhookStore,
};

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
    + ConsoleSessionStore
    + RunStore
    + RunQueueStore
    + ApprovalStore
    + CronStore
    + FileOperationStore
    + SkillLibraryStore
    + ProvidedSkillStore
    + AuditStore
    + UsageStore
    + OverviewStore
    + HubEventStore
    + WebhookStore
    + LeaseStore
    + NoticeStore
    + CommandStore
    + Send
    + Sync
    + 'static
{
    async fn ping(&self) -> Result<(), StateError>;

    fn connections(&self) -> ConnectionCounts;

    /// Afterwards, the counts of changes know of all that was committed before this call, by whichever node.
    async fn catch_up(&self) -> Result<(), StateError> {
        Ok(())
    }

    /// How often a tenant's record was changed, disk space and groups included, as far as this process knows. `None`
    /// where it is not known.
    fn changes_of(&self, _: &TenantId) -> Option<ChangeCount> {
        None
    }

    /// How often tokens were changed; `None` where that is not counted.
    fn token_changes(&self) -> Option<u64> {
        None
    }

    /// How often policy, configuration or specialization were changed by whichever node; `None` where there is only one.
    fn document_changes(&self) -> Option<u64> {
        None
    }

    /// How often skills of the library or of groups were changed by whichever node; `None` where there is only one.
    fn skill_changes(&self) -> Option<u64> {
        None
    }

    /// Where the files of shares are, if they are in object storage.
    fn share_index(&self) -> Option<Arc<dyn ShareIndexStore>> {
        None
    }

    /// The checkpoints of homes, if nodes hand them over.
    fn checkpoint_rows(&self) -> Option<Arc<dyn CheckpointStore>> {
        None
    }

    async fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StateError>;

    async fn set_meta(&self, name: &str, value: &[u8]) -> Result<(), StateError>;

    /// Stores a value unless there is one, and returns the stored one. Of nodes that do so together, one stores its own.
    async fn init_meta(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StateError>;

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
    /// A tenant has used what it may use a day.
    #[error("{}", limit.message(*resets_at))]
    DailyLimit {
        limit: ReachedLimit,
        resets_at: Time,
    },
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

    /// The error of a statement, for one more of those whom it was for.
    fn repeat(&self) -> Self {
        match self {
            Self::DiskFull(cause) => Self::DiskFull(cause.clone()),
            Self::Broken(cause) => Self::Broken(cause.clone()),
            Self::Unavailable(cause) => Self::Unavailable(cause.clone()),
            error => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<StateError> for Problem {
    fn from(error: StateError) -> Self {
        match error {
            StateError::NotFound { .. } => Problem::not_found(error.to_string()),
            StateError::Exists { .. } => {
                Problem::new(ProblemCode::AlreadyExists, error.to_string())
            }
            // Nothing is wrong with the request: the node that has the lease now can do it.
            StateError::Conflict { reason, message } if reason == LEASE_LOST => {
                Problem::new(ProblemCode::Unavailable, format!("{message}; try again"))
                    .with_reason(reason)
                    .with_retry_after(1000)
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
            StateError::DailyLimit { resets_at, .. } => {
                let wait = resets_at.millis().saturating_sub(Time::now().millis());
                Problem::new(ProblemCode::ResourceExhausted, error.to_string())
                    .with_reason("daily_limit")
                    .with_retry_after(u64::try_from(wait).unwrap_or(0).max(1000))
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
