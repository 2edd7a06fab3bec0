//! The runtime of tenants' agents: a trait, so that the Hub knows neither processes nor the agent.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::stream::BoxStream;
use hermes_config::Secret;
use hermes_protocol::{
    AgentReply, AgentRequest, ApprovalDecision, Directives, PromptInput, RunEvent,
};
use serde::Serialize;

use crate::{JobId, RunId, TenantId};

mod exit;
pub mod mock;

pub use crate::{
    api_types::ids::AgentRunId,
    tenants::runtime::exit::{AgentExit, ExitCause},
};

#[derive(Debug, Clone)]
pub struct AgentLaunch {
    pub tenant: TenantId,
    pub home: PathBuf,
    /// Authenticates the agent on the Hub's private routes, and the Hub to the agent.
    pub runtime_key: Secret<String>,
    /// The tenant's own variables, validated.
    pub env: BTreeMap<String, Secret<String>>,
    /// Groups and access, as `teams/division1:write`.
    pub teams: Vec<String>,
    pub timezone: String,
    pub limits: ResourceLimits,
    /// The effective settings; later ones are passed to [`Runtime::apply`].
    pub directives: Directives,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResourceLimits {
    /// Resident memory of all its processes.
    pub memory_bytes: u64,
    pub pids: u64,
    pub cpu: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessStatus {
    Stopped,
    Running {
        /// `None` if it has no process of its own.
        pid: Option<u32>,
    },
    Exited(AgentExit),
}

/// A kind of confinement, enforced or not; shown as a condition of the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confinement {
    /// `Sandboxed`, `MemoryLimited`, `PidsLimited`, `CpuLimited`, `OwnUser`.
    pub means: &'static str,
    /// Whether it is enforced.
    pub in_force: bool,
    /// How, or why not.
    pub reason: String,
}

#[derive(Debug, Clone)]
pub enum RunInput {
    /// Input of a client.
    Prompt(Box<PromptInput>),
    /// A cron job of its home.
    Job(JobId),
}

/// An event of a run with the agent's sequence number.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentEvent {
    /// 1, 2, 3 and so on.
    pub sequence: u64,
    pub event: RunEvent,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum RuntimeError {
    #[error("the tenant's agent does not start: {0}")]
    StartFailed(String),
    #[error("the tenant's agent {0}")]
    Exited(AgentExit),
    /// A retry may help.
    #[error("the tenant's agent is not reachable: {0}")]
    Unreachable(String),
    /// No such run or approval.
    #[error("{0}")]
    Unknown(String),
    /// Already decided, or too many runs.
    #[error("{0}")]
    Refused(String),
    /// It sent an event that is not as the protocol says. It would send the same again.
    #[error("the tenant's agent sent an event that cannot be read: {0}")]
    UnreadableEvent(String),
    #[error("the tenant's agent cannot do that: {0}")]
    Unsupported(String),
}

/// How a bot on a messaging platform is, as its agent says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BotHealth {
    /// `telegram`, or `telegram@work` for a further bot.
    pub label: String,
    /// `connected`, `reconnecting`, `deaf` and so on.
    pub state: String,
    /// When something was heard last. ISO time.
    pub last_ok_at: Option<String>,
}

/// Starts, stops and drives the agents of tenants.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Starts a tenant's agent and returns when it accepts runs. Does nothing if it is running.
    async fn start(&self, launch: AgentLaunch) -> Result<Vec<Confinement>, RuntimeError>;

    /// Stops it and all its processes; runs get this long to end.
    async fn stop(&self, tenant: &TenantId, timeout: Duration);

    async fn status(&self, tenant: &TenantId) -> ProcessStatus;

    /// All processes of a tenant, those of the next start too, are killed at this moment, even if the Hub stands still
    /// then, unless a later one is said before. Never waits.
    fn set_deadline(&self, _tenant: &TenantId, _deadline: Instant) {}

    /// Applies changed settings.
    async fn apply(&self, tenant: &TenantId, directives: &Directives) -> Result<(), RuntimeError>;

    /// Starts an attempt of a run, from 1. A second call for the same attempt returns the same run.
    async fn run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        attempt: u32,
        input: &RunInput,
    ) -> Result<AgentRunId, RuntimeError>;

    /// The events of a run after this one, oldest first, until it ends.
    async fn events(
        &self,
        tenant: &TenantId,
        run: &AgentRunId,
        after: u64,
    ) -> Result<BoxStream<'static, Result<AgentEvent, RuntimeError>>, RuntimeError>;

    async fn decide(
        &self,
        tenant: &TenantId,
        run: &AgentRunId,
        decision: &ApprovalDecision,
    ) -> Result<(), RuntimeError>;

    async fn stop_run(&self, tenant: &TenantId, run: &AgentRunId) -> Result<(), RuntimeError>;

    /// Asks an agent that runs about its model or its MCP servers.
    async fn send_request(
        &self,
        _tenant: &TenantId,
        _request: &AgentRequest,
        _timeout: Duration,
    ) -> Result<AgentReply, RuntimeError> {
        let message = "it takes no requests about models and MCP servers";
        Err(RuntimeError::Unsupported(message.into()))
    }

    /// How the bots of an agent are that runs.
    async fn bots(&self, _tenant: &TenantId) -> Result<Vec<BotHealth>, RuntimeError> {
        Ok(Vec::new())
    }
}
