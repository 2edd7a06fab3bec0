//! What runs a tenant's agent: a trait, so that the Hub knows neither processes nor the agent.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use async_trait::async_trait;
use futures::stream::BoxStream;
use hermes_config::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{JobId, RunId, TenantId};

mod death;
pub mod mock;

pub use death::{Death, DeathCause};

/// What a tenant's agent is started with.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Whose agent.
    pub tenant: TenantId,
    /// Its home.
    pub home: PathBuf,
    /// What it presents on the Hub's private routes, and what the Hub presents to it.
    pub runtime_key: Secret<String>,
    /// The tenant's own variables, already checked.
    pub env: BTreeMap<String, Secret<String>>,
    /// Groups and access, as `teams/division1:write`.
    pub teams: Vec<String>,
    /// An IANA zone.
    pub timezone: String,
    /// Its share of the machine.
    pub limits: Limits,
    /// The settings in force; later ones come by [`Runtime::apply`].
    pub directives: Directives,
}

/// A tenant's share of the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Resident bytes of all its processes.
    pub memory_bytes: u64,
    /// Processes.
    pub pids: u64,
    /// Processors.
    pub cpu: f64,
}

/// Hub-wide settings that reach into the agent. It takes them up at the next call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Directives {
    /// The policy in force for this tenant.
    pub policy: Value,
    /// Text placed before the tenant's own.
    pub specialization: String,
    /// The free map of the tenant-impact configuration.
    pub feature: Map<String, Value>,
    /// Its model, if flavor or tenant name one.
    pub model: Option<String>,
    /// How long an approval waits.
    pub approval_timeout_seconds: u64,
}

/// What is known of a tenant's agent at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// No process.
    Stopped,
    /// It runs.
    Running {
        /// Its process, where it has its own.
        pid: Option<u32>,
    },
    /// It ended by itself.
    Ended(Death),
}

/// Means of confinement, in force or not: shown as the tenant's conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confinement {
    /// `Sandboxed`, `MemoryLimited`, `PidsLimited`, `CpuLimited`, `OwnUser`.
    pub means: &'static str,
    /// Whether it is enforced.
    pub in_force: bool,
    /// How, or why not.
    pub reason: String,
}

/// What to run.
#[derive(Debug, Clone)]
pub enum Errand {
    /// Something a client said.
    Input {
        /// A text, or messages ending with the user's turn.
        input: Value,
        /// Added to the system prompt.
        instructions: Option<String>,
        /// The session to continue.
        session_id: Option<String>,
        /// What was said before.
        conversation_history: Option<Value>,
    },
    /// A cron job of its home, now.
    Job(JobId),
}

/// What an agent calls a run that the Hub started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRun(pub String);

/// An event of a run, in the agent's numbering.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentEvent {
    /// 1, 2, 3 and so on.
    pub sequence: u64,
    /// `event`, and what belongs to it.
    pub body: Map<String, Value>,
}

/// An answer to an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// `once`, `session`, `always` or `deny`.
    pub choice: String,
    /// Which one; the oldest if absent.
    pub approval_id: Option<String>,
    /// All that wait.
    pub all: bool,
    /// For the agent.
    pub reason: Option<String>,
}

/// Why an agent did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuntimeError {
    /// It can not be started.
    #[error("the tenant's agent does not start: {0}")]
    NoStart(String),
    /// It ended by itself before it could be asked.
    #[error("the tenant's agent {0}")]
    Died(Death),
    /// It is not there, or the connection broke: trying again may help.
    #[error("the tenant's agent is not reachable: {0}")]
    Unreachable(String),
    /// It has no such run or approval.
    #[error("{0}")]
    Unknown(String),
    /// It refused: already decided, too many runs.
    #[error("{0}")]
    Refused(String),
    /// It does not know how.
    #[error("the tenant's agent can not do that: {0}")]
    Unable(String),
}

/// Starts, stops and drives the agents of tenants.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Starts a tenant's agent and returns when it takes runs. Does nothing if it runs.
    async fn start(&self, launch: Launch) -> Result<Vec<Confinement>, RuntimeError>;

    /// Stops it and all it started; runs get this long to end.
    async fn stop(&self, tenant: &TenantId, patience: Duration);

    /// How it is.
    async fn life(&self, tenant: &TenantId) -> Life;

    /// Hands over changed settings.
    async fn apply(&self, tenant: &TenantId, directives: &Directives) -> Result<(), RuntimeError>;

    /// Starts an attempt at a run, the first being 1. A second call for the same attempt gives the same run.
    async fn run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        attempt: u32,
        errand: &Errand,
    ) -> Result<AgentRun, RuntimeError>;

    /// The events of a run after this one, old ones first, until it ends.
    async fn events(
        &self,
        tenant: &TenantId,
        run: &AgentRun,
        after: u64,
    ) -> Result<BoxStream<'static, Result<AgentEvent, RuntimeError>>, RuntimeError>;

    /// Answers an approval.
    async fn decide(
        &self,
        tenant: &TenantId,
        run: &AgentRun,
        decision: &Decision,
    ) -> Result<(), RuntimeError>;

    /// Stops a run.
    async fn stop_run(&self, tenant: &TenantId, run: &AgentRun) -> Result<(), RuntimeError>;
}
