//! Runs of a tenant's agent, their events, and what they wait for.

use hermes_protocol::{ApprovalChoice, RequestedForm, RunFailure, TokenUsage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Time, vocabulary};
use crate::{ApprovalId, RunId, TenantId};

vocabulary! {
    /// The status of a run.
    RunStatus {
        /// It is queued.
        Queued = "queued",
        /// The agent works on it.
        Running = "running",
        /// It waits for an approval.
        WaitingForApproval = "waiting_for_approval",
        /// It is being stopped.
        Stopping = "stopping",
        /// It has completed.
        Completed = "completed",
        /// It has failed.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

vocabulary! {
    /// The cause of a run.
    RunTrigger {
        /// A REST request.
        Api = "api",
        /// A cron job.
        Cron = "cron",
        /// A tool call over MCP.
        Mcp = "mcp",
        /// Another agent.
        A2a = "a2a",
    }
}

vocabulary! {
    /// The state of an approval.
    ApprovalState {
        /// It is pending.
        Pending = "pending",
        /// It was decided.
        Decided = "decided",
        /// It timed out.
        Expired = "expired",
        /// The run ended before a decision.
        Void = "void",
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its id.
    pub run_id: RunId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// Its state.
    pub status: RunStatus,
    /// Its cause.
    pub trigger: RunTrigger,
    /// The number of the attempt: 1, and more after it was interrupted and retried.
    pub attempt: u32,
    /// When it was requested.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
    /// Its last event, 0 before the first.
    pub last_event_id: u64,
    /// The answer.
    pub output: Option<String>,
    /// The tokens it used, also those of attempts that failed.
    pub usage: Option<RunUsage>,
    /// The model that answered, once one did.
    #[serde(default)]
    pub model: Option<String>,
    /// Why there is no answer.
    pub error: Option<RunError>,
    /// Values of the caller, stored with the run.
    pub metadata: Map<String, Value>,
}

/// Tokens that a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunUsage {
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// All tokens.
    pub total_tokens: u64,
    /// Input tokens that came from a cache.
    #[serde(default)]
    pub cached_tokens: u64,
}

impl std::ops::Add for RunUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            total_tokens: self.total_tokens.saturating_add(other.total_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
        }
    }
}

impl From<TokenUsage> for RunUsage {
    fn from(usage: TokenUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            total_tokens: usage.total_tokens,
            cached_tokens: usage.cached_tokens,
        }
    }
}

/// Why a run has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunError {
    /// The code, such as `interrupted`.
    pub code: String,
    /// The message.
    pub message: String,
}

impl From<RunFailure> for RunError {
    fn from(failure: RunFailure) -> Self {
        Self {
            code: failure.code,
            message: failure.message,
        }
    }
}

impl From<RunError> for RunFailure {
    fn from(error: RunError) -> Self {
        Self {
            code: error.code,
            message: error.message,
        }
    }
}

/// An event of a run, as stored and as sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoredEvent {
    /// 1, 2, 3 and so on within the run.
    pub id: u64,
    /// The kind of the event.
    pub event: String,
    /// The run.
    pub run_id: RunId,
    /// The time.
    pub time: Time,
    /// Further members of the event.
    #[serde(flatten)]
    pub body: Map<String, Value>,
}

/// An approval that a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its id.
    pub approval_id: ApprovalId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// Its state.
    pub state: ApprovalState,
    /// The command or tool, without secrets.
    pub command: String,
    /// Why it needs approval.
    pub description: String,
    /// When it was requested.
    pub created_at: Time,
    /// When it times out.
    pub expires_at: Option<Time>,
    /// What may be chosen: of `once`, `session`, `always` and `deny`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub choices: Vec<ApprovalChoice>,
    /// The form that an MCP server asks to be filled in, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<RequestedForm>,
    /// `once`, `session`, `always` or `deny`.
    #[schemars(with = "Option<String>")]
    pub choice: Option<ApprovalChoice>,
    /// The token that decided.
    pub decided_by: Option<String>,
    /// The time.
    pub decided_at: Option<Time>,
    /// The reason of the decision.
    pub reason: Option<String>,
}
