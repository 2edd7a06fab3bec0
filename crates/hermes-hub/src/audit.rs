//! What becomes an entry of the audit log, and how entries hold on to each other.
//!
//! Each node writes a chain of its own. The hash of an entry is SHA-256 over the 32 bytes of the hash before and the
//! canonical JSON (RFC 8785) of the entry without its own hash, so that no entry can be changed, removed or put in
//! between without all after it being wrong.

use std::time::Instant;

use crate::{
    TenantId,
    shapes::{Decision, Via},
    state::IdempotencyKey,
};

mod batch;
#[cfg(test)]
mod canonical;
pub(crate) mod chain;

pub use batch::ReadEntries;
pub use chain::{Link, ORIGIN};

/// An entry to be, without its place in the chain.
#[derive(Debug, Clone)]
pub struct NewEntry {
    /// Which token or tenant, or `hub`.
    pub actor: String,
    /// Through which door.
    pub via: Via,
    /// What is done: the name of an operation.
    pub action: String,
    /// Whose.
    pub tenant: Option<String>,
    /// To what: a name, `group:path`; never a value.
    pub target: Option<String>,
    /// Which arguments were given.
    pub arg_names: Vec<String>,
    /// Of what is written.
    pub content_sha256: Option<String>,
    /// Of what is written, in bytes.
    pub size: Option<u64>,
    /// Whether it is allowed.
    pub decision: Decision,
    /// As an HTTP status.
    pub status: u16,
    /// When the request came, for how long it took.
    pub started: Instant,
    /// The request's id.
    pub request_id: String,
    /// The key that has taken effect with this entry.
    pub idempotency: Option<IdempotencyKey>,
}

impl NewEntry {
    /// Something that is allowed and ends with 200.
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

    /// Something the Hub does by itself.
    pub fn by_hub(action: impl Into<String>) -> Self {
        Self::new("hub", Via::Hub, action)
    }

    /// On whose behalf.
    #[must_use]
    pub fn of(mut self, tenant: &TenantId) -> Self {
        self.tenant = Some(tenant.to_string());
        self
    }

    /// To what.
    #[must_use]
    pub fn to(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// Ending otherwise.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Refused.
    #[must_use]
    pub fn denied(mut self, status: u16) -> Self {
        self.decision = Decision::Deny;
        self.status = status;
        self
    }
}
