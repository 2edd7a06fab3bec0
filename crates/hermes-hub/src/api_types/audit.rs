//! Entries of the audit log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Time, vocabulary};

vocabulary! {
    /// Which door a request came through.
    Via {
        /// `/v1`.
        Rest = "rest",
        /// `/mcp`.
        Mcp = "mcp",
        /// The web console.
        Console = "console",
        /// A tenant's agent, on the private routes.
        Agent = "agent",
        /// The clock.
        Cron = "cron",
        /// The Hub itself.
        Hub = "hub",
    }
}

vocabulary! {
    /// Whether something was allowed.
    Decision {
        /// It was.
        Allow = "allow",
        /// It was not.
        Deny = "deny",
    }
}

vocabulary! {
    /// What an entry says of an operation on files, which cannot commit together with it.
    AuditPhase {
        /// It is about to be done.
        Intent = "intent",
        /// It was done, or failed as the status says.
        Done = "done",
        /// The Hub ended in between.
        Interrupted = "interrupted",
    }
}

/// An entry of the audit log: names, sizes and hashes, never values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// 1, 2, 3 and so on within the chain.
    pub seq: u64,
    /// The node that wrote it.
    pub chain: String,
    /// When.
    pub time: Time,
    /// Which token or tenant, or the Hub.
    pub actor: String,
    /// Through which door.
    pub via: Via,
    /// What was done.
    pub action: String,
    /// Whose.
    pub tenant: Option<String>,
    /// To what.
    pub target: Option<String>,
    /// Which arguments were given.
    pub arg_names: Vec<String>,
    /// Of what was written.
    pub content_sha256: Option<String>,
    /// Of what was written, in bytes.
    pub size: Option<u64>,
    /// Whether it was allowed.
    pub decision: Decision,
    /// As an HTTP status.
    pub status: u16,
    /// How long it took.
    pub duration_ms: u64,
    /// The request's id.
    pub request_id: String,
    /// For operations on files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<AuditPhase>,
    /// The entry of the intent that this one settles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<u64>,
    /// The hash of the entry before, 64 zeros in the first.
    pub prev_hash: String,
    /// Of this entry and the hash before.
    pub hash: String,
}
