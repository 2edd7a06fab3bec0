//! Entries of the audit log and their hash chain.
//!
//! Each node writes a chain of its own. The hash of an entry is SHA-256 over the 32 bytes of the previous hash and the
//! canonical JSON (RFC 8785) of the entry without its own hash, so that no entry can be changed, removed or inserted
//! without breaking all later ones.

use std::time::Instant;

use crate::{
    TenantId,
    api_types::{Decision, Via},
    storage::state::IdempotencyKey,
};

#[cfg(test)]
mod canonical;
pub(crate) mod chain;
mod read_writer;

pub use crate::storage::audit::read_writer::ReadAuditWriter;
pub use chain::{ChainPosition, ORIGIN_HASH};

/// A new entry, without its position in the chain.
#[derive(Debug, Clone)]
pub struct NewAuditEntry {
    /// Which token or tenant, or `hub`.
    pub actor: String,
    pub via: Via,
    /// The name of the operation.
    pub action: String,
    pub tenant: Option<String>,
    /// A name, or `group:path`; never a value.
    pub target: Option<String>,
    pub arg_names: Vec<String>,
    /// Of the written content.
    pub content_sha256: Option<String>,
    /// Of the written content, in bytes.
    pub size: Option<u64>,
    pub decision: Decision,
    pub status: u16,
    /// When the request arrived, to compute its duration.
    pub started: Instant,
    pub request_id: String,
    /// The idempotency key that takes effect with this entry.
    pub idempotency: Option<IdempotencyKey>,
}

impl NewAuditEntry {
    /// An allowed request with status 200.
    pub fn new(actor: impl Into<String>, via: Via, action: impl Into<String>) -> Self {
        Self {
            actor: actor.into(),
            via,
            action: action.into(),
            tenant: None,
            target: None,
            arg_names: Vec::new(),
            content_sha256: None,
            size: None,
            decision: Decision::Allow,
            status: 200,
            started: Instant::now(),
            request_id: String::new(),
            idempotency: None,
        }
    }

    /// An action of the Hub itself.
    pub fn by_hub(action: impl Into<String>) -> Self {
        Self::new("hub", Via::Hub, action)
    }

    #[must_use]
    pub fn for_tenant(mut self, tenant: &TenantId) -> Self {
        self.tenant = Some(tenant.to_string());
        self
    }

    #[must_use]
    pub fn with_target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    #[must_use]
    pub fn denied(mut self, status: u16) -> Self {
        self.decision = Decision::Deny;
        self.status = status;
        self
    }
}
