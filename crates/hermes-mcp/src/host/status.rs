//! What is told about every server: one shape for the command line, logs, banner and web console.

use hermes_config::ServerName;
use rmcp::model::Implementation;
use serde::{Deserialize, Serialize};

use crate::{
    connection::{
        breaker::BreakerState,
        counters::{CallCounts, ElicitationCounts, SamplingCounts},
        era::Era,
        link::LinkStatus,
    },
    process::sandbox::AppliedSandbox,
};

/// One server's status. A list of these is in the order of the configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The key under `mcp_servers`.
    pub name: String,
    /// `stdio`, `http` or `sse`.
    pub transport: String,
    /// How many tools are offered.
    pub tools: usize,
    /// Whether a session is live.
    pub connected: bool,
    /// Whether the entry says `enabled: false`.
    pub disabled: bool,
    /// One of the nine words.
    pub status: LinkStatus,
    /// The last error, redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub era: Option<Era>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// What the server calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Implementation>,
    /// The process of a local server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<AppliedSandbox>,
    /// Since when it is in this state, in Unix seconds.
    pub since: u64,
    /// Failed attempts since the last stable session.
    pub attempt: u32,
    /// When the next attempt is due, in Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<u64>,
    /// Sessions after the first.
    pub restarts: u32,
    /// Calls under way.
    pub in_flight: u64,
    pub calls: CallCounts,
    /// Questions to the user so far.
    pub elicitation: ElicitationCounts,
    /// Whether calls are let through.
    pub breaker: BreakerState,
    /// Tools that wait for `hermes mcp tools NAME --approve`.
    #[serde(default)]
    pub withheld_tools: Vec<String>,
    /// What is odd about the server.
    pub warnings: Vec<String>,
}

impl ServerStatus {
    /// The status of a server without a connection.
    pub fn unconnected(name: &ServerName, transport: &str, status: LinkStatus) -> Self {
        Self {
            name: name.to_string(),
            transport: transport.to_owned(),
            tools: 0,
            connected: false,
            disabled: status == LinkStatus::Disabled,
            status,
            error: None,
            error_at: None,
            sampling: None,
            era: None,
            protocol_version: None,
            server_info: None,
            pid: None,
            sandbox: None,
            since: 0,
            attempt: 0,
            next_attempt_at: None,
            restarts: 0,
            in_flight: 0,
            calls: CallCounts::default(),
            elicitation: ElicitationCounts::default(),
            breaker: BreakerState::Closed,
            withheld_tools: Vec::new(),
            warnings: Vec::new(),
        }
    }
}
