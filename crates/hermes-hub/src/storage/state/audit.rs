//! The audit log.

use async_trait::async_trait;

use super::{Page, Paged, StateError};
use crate::{
    TenantId,
    api_types::{AuditEntry, Decision, Time},
    storage::audit::NewAuditEntry,
};

/// Entries per portion of the tenant index. Smaller portions mean more lookups, larger ones more entries that are not
/// indexed yet and have to be scanned.
pub const AUDIT_PORTION: u64 = 16_384;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditOrder {
    #[default]
    NewestFirst,
    OldestFirst,
}

#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Only these tenants, which the token covers.
    pub only: Option<Vec<TenantId>>,
    pub tenant: Option<TenantId>,
    pub actor: Option<String>,
    pub action: Option<String>,
    pub decision: Option<Decision>,
    pub request_id: Option<String>,
    pub since: Option<Time>,
    pub until: Option<Time>,
    pub order: AuditOrder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainHead {
    pub chain: String,
    pub seq: u64,
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenEntry {
    /// The first entry that was changed.
    pub seq: u64,
    pub reason: String,
}

/// The result of verifying a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainCheck {
    pub chain: String,
    pub first: u64,
    /// The last valid entry.
    pub last: u64,
    pub entries: u64,
    pub broken: Option<BrokenEntry>,
}

#[async_trait]
pub trait AuditStore {
    /// Appends entries of requests that changed nothing: reads and denials.
    async fn append_audit(&self, entries: Vec<NewAuditEntry>) -> Result<(), StateError>;

    async fn audit(&self, query: &AuditQuery, page: &Page)
    -> Result<Paged<AuditEntry>, StateError>;

    async fn audit_heads(&self) -> Result<Vec<ChainHead>, StateError>;

    /// Records the heads of the other nodes' chains in this node's chain.
    async fn record_heads(&self) -> Result<(), StateError>;

    /// Adds recent entries to the tenant index, if there are at least `least`. Entries are found without it, too, only
    /// slower.
    async fn index_audit(&self, least: u64) -> Result<(), StateError>;

    /// Verifies every entry of every chain.
    async fn verify_audit(&self) -> Result<Vec<ChainCheck>, StateError>;

    /// Deletes entries before this time, and stores the hash that the first remaining entry follows.
    async fn prune_audit(&self, before: Time) -> Result<u64, StateError>;
}
