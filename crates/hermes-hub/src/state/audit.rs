//! The audit log.

use async_trait::async_trait;

use super::{Page, Paged, StateError};
use crate::{
    TenantId,
    audit::NewEntry,
    shapes::{AuditEntry, Decision, Time},
};

/// Entries that are filed by tenant together. Fewer would have to be looked through in more places, and more that are
/// not filed yet one by one.
pub const AUDIT_PORTION: u64 = 16_384;

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditOrder {
    /// To look at.
    #[default]
    NewestFirst,
    /// To export and follow.
    OldestFirst,
}

/// Which entries.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Of these tenants: what a token covers.
    pub only: Option<Vec<TenantId>>,
    /// Of one tenant.
    pub tenant: Option<TenantId>,
    /// By one actor.
    pub actor: Option<String>,
    /// Of one kind.
    pub action: Option<String>,
    /// Allowed ones, or denied ones.
    pub decision: Option<Decision>,
    /// Of one request.
    pub request_id: Option<String>,
    /// Not before.
    pub since: Option<Time>,
    /// Before.
    pub until: Option<Time>,
    /// In which order.
    pub order: AuditOrder,
}

/// The end of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainHead {
    /// Whose.
    pub chain: String,
    /// The last entry.
    pub seq: u64,
    /// Its hash.
    pub hash: String,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The first entry that is not as it was written.
    pub seq: u64,
    /// In what way.
    pub reason: String,
}

/// What a look at a chain gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainCheck {
    /// Whose.
    pub chain: String,
    /// The first entry that is kept.
    pub first: u64,
    /// The last one that holds.
    pub last: u64,
    /// How many were looked at.
    pub entries: u64,
    /// The first that is broken.
    pub broken: Option<Fault>,
}

/// The audit log.
#[async_trait]
pub trait AuditLog {
    /// Adds entries of what changed nothing: reads and denials.
    async fn append_audit(&self, entries: Vec<NewEntry>) -> Result<(), StateError>;

    /// Some entries.
    async fn audit(&self, query: &AuditQuery, page: &Page)
    -> Result<Paged<AuditEntry>, StateError>;

    /// Where each chain ends.
    async fn audit_heads(&self) -> Result<Vec<ChainHead>, StateError>;

    /// Writes the heads of the other nodes' chains into this node's.
    async fn record_heads(&self) -> Result<(), StateError>;

    /// Files what was added lately by tenant, if it is at least so much, to find it faster. It is found before, too.
    async fn file_audit(&self, least: u64) -> Result<(), StateError>;

    /// Looks at every entry of every chain.
    async fn verify_audit(&self) -> Result<Vec<ChainCheck>, StateError>;

    /// Forgets entries written before, and remembers the hash that the first one kept goes on from.
    async fn prune_audit(&self, before: Time) -> Result<u64, StateError>;
}
