//! The audit log.

use async_trait::async_trait;

use super::{Page, Paged, StateError, page::encode_cursor};
use crate::{
    TenantId,
    api_types::{AuditEntry, Decision, Time, ids::hex},
    storage::audit::{ChainPosition, NewAuditEntry},
};

pub(super) mod verify;

/// The audit action for heads of other chains.
pub(super) const RECORD_HEAD_ACTION: &str = "record_chain_head";
/// Entries per portion of the tenant index. Smaller portions mean more lookups, larger ones more entries that are not
/// indexed yet and have to be scanned. Databases have larger ones of earlier versions.
pub const AUDIT_PORTION: u64 = 2_048;

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
    /// How many entries are looked at for what no index has. A page then ends there, also if it is not full.
    pub reach: Option<u32>,
}

impl AuditQuery {
    /// How many entries are looked at, where each has to be.
    pub(super) fn bounded_reach(&self) -> Option<u32> {
        let is_of_tenants = self.tenant.is_some() || self.only.is_some();
        let is_filtered = self.actor.is_some()
            || self.action.is_some()
            || self.decision.is_some()
            || self.request_id.is_some();
        self.reach
            .filter(|reach| *reach > 0 && is_filtered && !is_of_tenants)
    }
}

/// Time, chain and number of an entry: the sort key.
pub(super) type EntryKey = (i64, String, i64);

/// Where a page begins: after this entry.
pub(super) fn page_start(page: &Page) -> Result<Option<EntryKey>, StateError> {
    let Some([time, chain, seq]) = page.cursor_key::<3>()? else {
        return Ok(None);
    };
    let number = |text: &str| text.parse().map_err(|_| StateError::BadCursor);
    Ok(Some((number(&time)?, chain, number(&seq)?)))
}

/// A page of found entries. If it is not full, the next one begins after the last entry that was looked at.
pub(super) fn page_entries(
    entries: Vec<AuditEntry>,
    page: &Page,
    last_looked: Option<EntryKey>,
) -> Paged<AuditEntry> {
    let mut paged = Paged::from_fetched(entries, page, |entry: &AuditEntry| {
        [
            entry.time.millis().to_string(),
            entry.chain.clone(),
            entry.seq.to_string(),
        ]
    });
    if let (None, Some((time, chain, seq))) = (&paged.next, last_looked) {
        paged.next = encode_cursor(&[time.to_string(), chain, seq.to_string()]);
    }
    paged
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

impl ChainCheck {
    /// Of a chain of which nothing is verified yet, after this position.
    pub(super) fn new(chain: &str, start: &ChainPosition) -> Self {
        Self {
            chain: chain.to_owned(),
            first: start.seq + 1,
            last: start.seq,
            entries: 0,
            broken: None,
        }
    }
}

/// Where a verification in parts goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPoint {
    pub chain: String,
    /// The last entry that was verified. The next one must follow it.
    pub position: ChainPosition,
    /// The last entry that is to be verified: later ones have been added since.
    pub until: u64,
}

/// The result of verifying some entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditPart {
    /// The chain of these entries first. Another one is there if these entries show that it was changed.
    pub checks: Vec<ChainCheck>,
    pub next: Option<AuditPoint>,
}

impl AuditPoint {
    pub(crate) fn to_cursor(&self) -> Option<String> {
        encode_cursor(&[
            self.chain.clone(),
            self.position.seq.to_string(),
            hex(&self.position.hash),
            self.until.to_string(),
        ])
    }

    /// Where a page begins; `None` for the first.
    pub(crate) fn from_page(page: &Page) -> Result<Option<Self>, StateError> {
        let Some([chain, seq, hash, until]) = page.cursor_key::<4>()? else {
            return Ok(None);
        };
        let number = |text: &str| text.parse().map_err(|_| StateError::BadCursor);
        let hash = hermes_config::from_hex(&hash).and_then(|hash| hash.try_into().ok());
        Ok(Some(Self {
            chain,
            position: ChainPosition {
                seq: number(&seq)?,
                hash: hash.ok_or(StateError::BadCursor)?,
            },
            until: number(&until)?,
        }))
    }
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

    /// Verifies at most so many entries. All parts together prove what [`Self::verify_audit`] proves of the entries that
    /// were there when the first part of their chain began.
    async fn verify_audit_part(
        &self,
        after: Option<&AuditPoint>,
        most: u32,
    ) -> Result<AuditPart, StateError>;

    /// Deletes entries before this time, and stores the hash that the first remaining entry follows.
    async fn prune_audit(&self, before: Time) -> Result<u64, StateError>;
}
