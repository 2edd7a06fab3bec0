//! The runtime of one tenant whose agent is there already: the user's own home. All others are left to another runtime.

use std::{
    io,
    os::unix::net::UnixListener,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::{future::BoxFuture, stream::BoxStream};
use hermes_config::{Secret, Variables};
use hermes_hub::{
    RunId, TenantId,
    api_types::{KeyKind, NewKey, ids::AgentRunId},
    tenants::runtime::{
        AgentEvent, AgentExit, AgentLaunch, BotHealth, Confinement, ExitCause, ProcessStatus,
        RunInput, Runtime, RuntimeError,
    },
};
use hermes_protocol::{AgentReply, AgentRequest, ApprovalDecision, Directives};

use super::{api::AgentApi, socket::AgentSockets};
use crate::private_routes::RuntimeKey;

/// Timeout of its first reply.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Lets an agent in this process work with the variables that the Hub has for it.
pub(crate) type ApplyVariables = Box<dyn Fn(Variables) -> BoxFuture<'static, ()> + Send + Sync>;

/// An agent that runs already.
pub struct LinkedAgent(AgentLocation);

enum AgentLocation {
    /// In this process, which the Hub directs.
    InProcess {
        api: AgentApi,
        /// What it presents to the Hub.
        key: RuntimeKey,
        take_variables: ApplyVariables,
        /// The path of its socket leads through this.
        _sockets: AgentSockets,
    },
    /// In another process, which its owner directs.
    OtherProcess(AgentApi),
    /// In another process, which cannot be asked.
    Unreachable(String),
}

impl LinkedAgent {
    /// One in this process. It is to serve on this socket, for whoever presents the returned key; the other key is the
    /// one that it presents to the Hub itself.
    pub(crate) fn in_process(
        data_dir: &Path,
        tenant: &TenantId,
        key: RuntimeKey,
        take_variables: ApplyVariables,
    ) -> io::Result<(Self, UnixListener, Secret<String>)> {
        let for_hub = NewKey::random(KeyKind::Runtime)?.secret;
        let sockets = AgentSockets::in_directory(data_dir.join("run"))?;
        let (listener, path) = sockets.listen(tenant)?;
        let api = AgentApi::new(&path, for_hub.clone()).map_err(io::Error::other)?;
        let agent = Self(AgentLocation::InProcess {
            api,
            key,
            take_variables,
            _sockets: sockets,
        });
        Ok((agent, listener, for_hub))
    }

    /// One in another process, by its local HTTP API.
    pub fn in_other_process(base: &str, key: Secret<String>) -> Result<Self, RuntimeError> {
        Ok(Self(AgentLocation::OtherProcess(AgentApi::with_base_url(
            base, key,
        )?)))
    }

    /// One that cannot be asked, and why.
    pub fn unreachable(reason: impl Into<String>) -> Self {
        Self(AgentLocation::Unreachable(reason.into()))
    }

    /// Whether runs can be passed to it.
    pub fn is_reachable(&self) -> bool {
        self.api().is_ok()
    }

    fn api(&self) -> Result<&AgentApi, RuntimeError> {
        match &self.0 {
            AgentLocation::InProcess { api, .. } | AgentLocation::OtherProcess(api) => Ok(api),
            AgentLocation::Unreachable(reason) => Err(RuntimeError::Unreachable(reason.clone())),
        }
    }

    async fn start(&self, launch: &AgentLaunch) -> Result<Vec<Confinement>, RuntimeError> {
        let api = match &self.0 {
            AgentLocation::Unreachable(reason) => {
                return Err(RuntimeError::StartFailed(reason.clone()));
            }
            AgentLocation::InProcess {
                api,
                key,
                take_variables,
                ..
            } => {
                key.replace(launch.runtime_key.clone());
                let given = launch.env.iter();
                let given = given.map(|(name, value)| (name.as_str(), value.expose().as_str()));
                take_variables(Variables::from_pairs(given)).await;
                api
            }
            AgentLocation::OtherProcess(api) => api,
        };
        let no_start = |error: RuntimeError| RuntimeError::StartFailed(error.to_string());
        api.check_health(START_TIMEOUT).await.map_err(no_start)?;
        self.apply_directives(&launch.directives)
            .await
            .map_err(no_start)?;
        Ok(vec![Confinement {
            means: "Sandboxed",
            in_force: false,
            reason: "it is the home of the Hub's own user".into(),
        }])
    }

    async fn apply_directives(&self, directives: &Directives) -> Result<(), RuntimeError> {
        match &self.0 {
            AgentLocation::InProcess { api, .. } => api.apply_directives(directives).await,
            // Its owner directs it.
            AgentLocation::OtherProcess(_) | AgentLocation::Unreachable(_) => Ok(()),
        }
    }

    async fn send_request(
        &self,
        request: &AgentRequest,
        timeout: Duration,
    ) -> Result<AgentReply, RuntimeError> {
        match &self.0 {
            AgentLocation::InProcess { api, .. } => api.send_request(request, timeout).await,
            // Its owner directs it.
            AgentLocation::OtherProcess(_) => Err(RuntimeError::Unsupported(
                "its gateway was started by its owner; ask there with `hermes mcp` and `hermes model`".into(),
            )),
            AgentLocation::Unreachable(reason) => Err(RuntimeError::Unreachable(reason.clone())),
        }
    }

    async fn life(&self) -> ProcessStatus {
        match &self.0 {
            AgentLocation::InProcess { .. } => ProcessStatus::Running { pid: None },
            AgentLocation::OtherProcess(api) if api.is_healthy().await => {
                ProcessStatus::Running { pid: None }
            }
            AgentLocation::OtherProcess(_) => ProcessStatus::Exited(AgentExit {
                cause: ExitCause::Unknown,
                details: "the gateway of this home does not answer".into(),
            }),
            AgentLocation::Unreachable(_) => ProcessStatus::Stopped,
        }
    }
}

/// Runs one tenant by an agent that is there, and all others by another runtime.
pub struct LinkedRuntime {
    tenant: TenantId,
    agent: LinkedAgent,
    others: Arc<dyn Runtime>,
}

impl LinkedRuntime {
    /// With this agent for this tenant.
    pub fn new(tenant: TenantId, agent: LinkedAgent, others: Arc<dyn Runtime>) -> Self {
        Self {
            tenant,
            agent,
            others,
        }
    }

    fn is_linked(&self, tenant: &TenantId) -> bool {
        *tenant == self.tenant
    }
}

#[async_trait]
impl Runtime for LinkedRuntime {
    async fn start(&self, launch: AgentLaunch) -> Result<Vec<Confinement>, RuntimeError> {
        if self.is_linked(&launch.tenant) {
            return self.agent.start(&launch).await;
        }
        self.others.start(launch).await
    }

    /// A linked agent goes on: it is the user's, and ends with their process.
    async fn stop(&self, tenant: &TenantId, timeout: Duration) {
        if !self.is_linked(tenant) {
            self.others.stop(tenant, timeout).await;
        }
    }

    fn set_deadline(&self, tenant: &TenantId, deadline: Instant) {
        if !self.is_linked(tenant) {
            self.others.set_deadline(tenant, deadline);
        }
    }

    async fn status(&self, tenant: &TenantId) -> ProcessStatus {
        if self.is_linked(tenant) {
            return self.agent.life().await;
        }
        self.others.status(tenant).await
    }

    async fn apply(&self, tenant: &TenantId, directives: &Directives) -> Result<(), RuntimeError> {
        if self.is_linked(tenant) {
            return self.agent.apply_directives(directives).await;
        }
        self.others.apply(tenant, directives).await
    }

    async fn run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        attempt: u32,
        input: &RunInput,
    ) -> Result<AgentRunId, RuntimeError> {
        if self.is_linked(tenant) {
            return self.agent.api()?.start_run(run, attempt, input).await;
        }
        self.others.run(tenant, run, attempt, input).await
    }

    async fn events(
        &self,
        tenant: &TenantId,
        run: &AgentRunId,
        after: u64,
    ) -> Result<BoxStream<'static, Result<AgentEvent, RuntimeError>>, RuntimeError> {
        if self.is_linked(tenant) {
            return self.agent.api()?.events(run, after).await;
        }
        self.others.events(tenant, run, after).await
    }

    async fn decide(
        &self,
        tenant: &TenantId,
        run: &AgentRunId,
        decision: &ApprovalDecision,
    ) -> Result<(), RuntimeError> {
        if self.is_linked(tenant) {
            return self.agent.api()?.send_decision(run, decision).await;
        }
        self.others.decide(tenant, run, decision).await
    }

    async fn stop_run(&self, tenant: &TenantId, run: &AgentRunId) -> Result<(), RuntimeError> {
        if self.is_linked(tenant) {
            return self.agent.api()?.stop_run(run).await;
        }
        self.others.stop_run(tenant, run).await
    }

    async fn send_request(
        &self,
        tenant: &TenantId,
        request: &AgentRequest,
        timeout: Duration,
    ) -> Result<AgentReply, RuntimeError> {
        if self.is_linked(tenant) {
            return self.agent.send_request(request, timeout).await;
        }
        self.others.send_request(tenant, request, timeout).await
    }

    async fn bots(&self, tenant: &TenantId) -> Result<Vec<BotHealth>, RuntimeError> {
        if self.is_linked(tenant) {
            return self.agent.api()?.bots().await;
        }
        self.others.bots(tenant).await
    }
}
