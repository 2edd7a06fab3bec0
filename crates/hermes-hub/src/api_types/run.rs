//! Runs of a tenant's agent, their events, and what they wait for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Time, vocabulary};
use crate::{ApprovalId, RunId, TenantId};

vocabulary! {
    /// Where a run stands.
    RunStatus {
        /// It waits for its turn.
        Queued = "queued",
        /// The agent works on it.
        Running = "running",
        /// Somebody has to decide.
        WaitingForApproval = "waiting_for_approval",
        /// It was told to stop.
        Stopping = "stopping",
        /// It ended as wished.
        Completed = "completed",
        /// It ended otherwise.
        Failed = "failed",
        /// It was stopped.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

vocabulary! {
    /// What caused a run.
    RunTrigger {
        /// A REST request.
        Api = "api",
        /// The clock, or somebody who did not want to wait for it.
        Cron = "cron",
        /// A tool call.
        Mcp = "mcp",
        /// Another agent.
        A2a = "a2a",
    }
}

vocabulary! {
    /// Where an approval stands.
    ApprovalState {
        /// Nobody has decided.
        Pending = "pending",
        /// Somebody has.
        Decided = "decided",
        /// Nobody did in time.
        Expired = "expired",
        /// The run ended before.
        Void = "void",
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its id.
    pub run_id: RunId,
    /// Whose agent.
    pub tenant_id: TenantId,
    /// Where it stands.
    pub status: RunStatus,
    /// What caused it.
    pub trigger: RunTrigger,
    /// 1, and more after it was cut off and begun anew.
    pub attempt: u32,
    /// When it was asked for.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
    /// Its last event, 0 before the first.
    pub last_event_id: u64,
    /// The answer.
    pub output: Option<String>,
    /// What the answer took.
    pub usage: Option<RunUsage>,
    /// Why there is none.
    pub error: Option<RunError>,
    /// What the caller wanted kept.
    pub metadata: Map<String, Value>,
}

/// Tokens a run took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunUsage {
    /// Read.
    pub input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Both.
    pub total_tokens: u64,
}

/// Why a run has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunError {
    /// One word, such as `interrupted`.
    pub code: String,
    /// For people.
    pub message: String,
}

/// An event of a run, as stored and as sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    /// 1, 2, 3 and so on within the run.
    pub id: u64,
    /// What happened.
    pub event: String,
    /// In which run.
    pub run_id: RunId,
    /// When.
    pub time: Time,
    /// What belongs to it.
    #[serde(flatten)]
    pub body: Map<String, Value>,
}

/// Something a run waits for a decision on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its id.
    pub approval_id: ApprovalId,
    /// Whose agent asks.
    pub tenant_id: TenantId,
    /// In which run.
    pub run_id: RunId,
    /// Where it stands.
    pub state: ApprovalState,
    /// What is to be run, without secrets.
    pub command: String,
    /// Why it is asked about.
    pub description: String,
    /// When it was asked.
    pub created_at: Time,
    /// When it is denied unless somebody decides.
    pub expires_at: Option<Time>,
    /// `once`, `session`, `always` or `deny`.
    pub choice: Option<String>,
    /// Which token decided.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<Time>,
    /// Why.
    pub reason: Option<String>,
}
