//! A tenant's agent as it is at this moment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Time, vocabulary};

vocabulary! {
    /// What an agent is doing.
    AgentPhase {
        /// Somebody stopped it.
        Stopped = "stopped",
        /// It is being started.
        Starting = "starting",
        /// It works.
        Running = "running",
        /// It has nothing to do.
        Idle = "idle",
        /// It had nothing to do and was stopped; work wakes it.
        Sleeping = "sleeping",
        /// It is being stopped.
        Stopping = "stopping",
        /// It failed too often; somebody has to start it.
        Failed = "failed",
    }
}

/// A tenant's agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentState {
    /// What it is doing.
    pub state: AgentPhase,
    /// Since when.
    pub since: Time,
    /// Its process, where it has its own.
    pub pid: Option<u32>,
    /// The node it belongs to.
    pub node: String,
    /// The Hub's version, which is the agent's too.
    pub version: String,
    /// How many runs it works on.
    pub active_runs: u32,
    /// How often it was started again after it had failed.
    pub restarts: u32,
    /// Why it failed last.
    pub last_error: Option<String>,
}
