//! Entries of the audit log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Time, vocabulary};

vocabulary! {
    /// The interface of a request.
    Via {
        /// `/v1`.
        Rest = "rest",
        /// `/mcp`.
        Mcp = "mcp",
        /// The web console.
        Console = "console",
        /// A tenant's agent, on the private routes.
        Agent = "agent",
        /// The scheduler of cron jobs.
        Cron = "cron",
        /// The Hub itself.
        Hub = "hub",
    }
}

vocabulary! {
    /// Whether a request was allowed.
    Decision {
        /// It was allowed.
        Allow = "allow",
        /// It was denied.
        Deny = "deny",
    }
}

vocabulary! {
    /// The phase of a file operation, which cannot be in one transaction with its entry.
    AuditPhase {
        /// Before the operation.
        Intent = "intent",
        /// After the operation, which succeeded or failed.
        Done = "done",
        /// The Hub ended during the operation.
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
    /// The time of the entry.
    pub time: Time,
    /// The token, the tenant or the Hub that caused it.
    pub actor: String,
    /// The interface of the request.
    pub via: Via,
    /// The operation.
    pub action: String,
    /// The tenant that it concerns.
    pub tenant: Option<String>,
    /// The object that it concerns.
    pub target: Option<String>,
    /// The names of the arguments.
    pub arg_names: Vec<String>,
    /// The hash of the written content.
    pub content_sha256: Option<String>,
    /// The size of the written content in bytes.
    pub size: Option<u64>,
    /// Whether it was allowed.
    pub decision: Decision,
    /// The HTTP status of the reply.
    pub status: u16,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The request's id.
    pub request_id: String,
    /// The phase of a file operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<AuditPhase>,
    /// The entry of the intent that this one completes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<u64>,
    /// The hash of the previous entry, 64 zeros in the first.
    pub prev_hash: String,
    /// The hash of this entry and `prevHash`.
    pub hash: String,
}
