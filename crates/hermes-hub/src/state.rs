//! What the Hub remembers, behind traits: one per subject, one database behind them all.
//!
//! Whatever changes something on somebody's behalf takes an audit entry along and commits it in the same transaction,
//! so that there is neither an effect without its entry nor an entry without its effect. Other nodes may use the same
//! database: nothing is remembered in the process, but for what [`State::changes`] vouches for.

use async_trait::async_trait;

use crate::audit::NewEntry;

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

pub use approvals::{ApprovalQuery, Approvals, Carried, Choice, NewApproval};
pub use audit::{AUDIT_PORTION, AuditLog, AuditOrder, AuditQuery, ChainCheck, ChainHead, Fault};
pub use cron::{Cron, DueJob, FileVersion, Fire, FireOutcome, JobFile, JobTime, NewFire};
pub use documents::{Applied, Document, DocumentKind, Documents};
pub use env::{Env, NewVariable};
pub use error::StateError;
pub use files::{
    FileEffect, FileIntent, FileOperations, Intent, Owner, Reserve, TotalUsage, Usage,
};
pub use groups::{Emptiness, GroupChange, GroupRecord, Groups};
pub use idempotency::{Idempotency, IdempotencyKey, KeyClaim, StoredReply};
pub use mcp_sessions::{McpSession, McpSessions, McpUse, Opened, SessionHash};
pub use page::{Page, Paged};
pub use queue::Queue;
pub use runs::{
    EventPage, NewEvent, NewRun, RunChange, RunQuery, RunRecord, RunUpdate, RunUpdated, Runs,
};
pub use sqlite::SqliteState;
pub use tenants::{
    Deletion, NewAccess, NewRuntimeKey, NewTenant, Observation, Reach, TenantChange, TenantFilter,
    TenantHome, TenantQuery, TenantRecord, Tenants,
};
pub use tokens::{NewSecret, NewToken, TokenRecord, Tokens};

/// Connections to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// All of them.
    pub open: u64,
    /// Those that nobody uses.
    pub idle: u64,
}

/// All that the Hub remembers.
#[async_trait]
pub trait State:
    Tenants
    + Env
    + Groups
    + Tokens
    + Documents
    + Idempotency
    + McpSessions
    + Runs
    + Queue
    + Approvals
    + Cron
    + FileOperations
    + AuditLog
    + Send
    + Sync
    + 'static
{
    /// Whether the database answers.
    async fn ping(&self) -> Result<(), StateError>;

    /// How many connections to the database there are.
    fn connections(&self) -> Connections;

    /// Another number after every change of anything but the log: what was read before is good as long as it stays the
    /// same. `None` where others change things, too, or where it is not known.
    fn changes(&self) -> Option<u64> {
        None
    }

    /// A small value kept under a name.
    async fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StateError>;

    /// Keeps a small value under a name.
    async fn set_meta(&self, name: &str, value: &[u8]) -> Result<(), StateError>;

    /// Whether there is any value that only the secret key opens.
    async fn has_sealed(&self) -> Result<bool, StateError>;

    /// Forgets every sealed value, after the key was lost for good: variables and runtime keys are to be set again.
    async fn forget_sealed(&self, entry: NewEntry) -> Result<(), StateError>;

    /// Writes everything back and lets go of the database.
    async fn close(&self);
}
