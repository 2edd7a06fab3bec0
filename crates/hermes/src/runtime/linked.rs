//! The runtime of one tenant whose agent is there already: the user's own home. All others are left to another runtime.

use std::{io, os::unix::net::UnixListener, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{future::BoxFuture, stream::BoxStream};
use hermes_config::{Secret, Variables};
use hermes_hub::{
    RunId, TenantId,
    auth::{KeyKind, NewKey},
    runtime::{
        AgentEvent, AgentRun, Confinement, Death, DeathCause, Decision, Directives, Errand, Launch,
        Life, Runtime, RuntimeError,
    },
};

use super::{api::AgentApi, socket::Sockets};
use crate::teams::RuntimeKey;

/// Timeout of its first reply.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// Lets an agent in this process work with the variables that the Hub has for it.
pub(crate) type TakeVariables = Box<dyn Fn(Variables) -> BoxFuture<'static, ()> + Send + Sync>;

/// An agent that runs already.
pub struct LinkedAgent(Found);

enum Found {
    /// In this process, which the Hub directs.
    Here {
        api: AgentApi,
        /// What it presents to the Hub.
        key: RuntimeKey,
        take_variables: TakeVariables,
        /// The path of its socket leads through this.
        _sockets: Sockets,
    },
    /// In another process, which its owner directs.
    Elsewhere(AgentApi),
    /// In another process, which cannot be asked.
    Unreached(String),
}

impl LinkedAgent {
    /// One in this process. It is to serve on this socket, for whoever presents the returned key; the other key is the
    /// one that it presents to the Hub itself.
    pub(crate) fn here(
        data_dir: &Path,
        tenant: &TenantId,
        key: RuntimeKey,
        take_variables: TakeVariables,
    ) -> io::Result<(Self, UnixListener, Secret<String>)> {
        let for_hub = NewKey::random(KeyKind::Runtime)?.secret;
        let sockets = Sockets::in_directory(data_dir.join("run"))?;
        let (listener, path) = sockets.listen(tenant)?;
        let api = AgentApi::new(&path, for_hub.clone()).map_err(io::Error::other)?;
        let agent = Self(Found::Here {
            api,
            key,
            take_variables,
            _sockets: sockets,
        });
        Ok((agent, listener, for_hub))
    }

    /// One in another process, by its local HTTP API.
    pub fn elsewhere(base: &str, key: Secret<String>) -> Result<Self, RuntimeError> {
        Ok(Self(Found::Elsewhere(AgentApi::at(base, key)?)))
    }

    /// One that cannot be asked, and why.
    pub fn unreached(reason: impl Into<String>) -> Self {
        Self(Found::Unreached(reason.into()))
    }

    fn api(&self) -> Result<&AgentApi, RuntimeError> {
        match &self.0 {
            Found::Here { api, .. } | Found::Elsewhere(api) => Ok(api),
            Found::Unreached(reason) => Err(RuntimeError::Unreachable(reason.clone())),
        }
    }

    async fn begin(&self, launch: &Launch) -> Result<Vec<Confinement>, RuntimeError> {
        let api = match &self.0 {
            Found::Unreached(reason) => return Err(RuntimeError::NoStart(reason.clone())),
            Found::Here {
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
            Found::Elsewhere(api) => api,
        };
        let no_start = |error: RuntimeError| RuntimeError::NoStart(error.to_string());
        api.health(START_PATIENCE).await.map_err(no_start)?;
        self.apply(&launch.directives).await.map_err(no_start)?;
        Ok(vec![Confinement {
            means: "Sandboxed",
            in_force: false,
            reason: "it is the home of the Hub's own user".into(),
        }])
    }

    async fn apply(&self, directives: &Directives) -> Result<(), RuntimeError> {
        match &self.0 {
            Found::Here { api, .. } => api.apply(directives).await,
            // Its owner directs it.
            Found::Elsewhere(_) | Found::Unreached(_) => Ok(()),
        }
    }

    async fn life(&self) -> Life {
        match &self.0 {
            Found::Here { .. } => Life::Running { pid: None },
            Found::Elsewhere(api) if api.is_well().await => Life::Running { pid: None },
            Found::Elsewhere(_) => Life::Ended(Death {
                cause: DeathCause::Unknown,
                details: "the gateway of this home does not answer".into(),
            }),
            Found::Unreached(_) => Life::Stopped,
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
    async fn start(&self, launch: Launch) -> Result<Vec<Confinement>, RuntimeError> {
        if self.is_linked(&launch.tenant) {
            return self.agent.begin(&launch).await;
        }
        self.others.start(launch).await
    }

    /// A linked agent goes on: it is the user's, and ends with their process.
    async fn stop(&self, tenant: &TenantId, patience: Duration) {
        if !self.is_linked(tenant) {
            self.others.stop(tenant, patience).await;
        }
    }

    async fn life(&self, tenant: &TenantId) -> Life {
        if self.is_linked(tenant) {
            return self.agent.life().await;
        }
        self.others.life(tenant).await
    }

    async fn apply(&self, tenant: &TenantId, directives: &Directives) -> Result<(), RuntimeError> {
        if self.is_linked(tenant) {
            return self.agent.apply(directives).await;
        }
        self.others.apply(tenant, directives).await
    }

    async fn run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        attempt: u32,
        errand: &Errand,
    ) -> Result<AgentRun, RuntimeError> {
        if self.is_linked(tenant) {
            return self.agent.api()?.run(run, attempt, errand).await;
        }
        self.others.run(tenant, run, attempt, errand).await
    }

    async fn events(
        &self,
        tenant: &TenantId,
        run: &AgentRun,
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
        run: &AgentRun,
        decision: &Decision,
    ) -> Result<(), RuntimeError> {
        if self.is_linked(tenant) {
            return self.agent.api()?.decide(run, decision).await;
        }
        self.others.decide(tenant, run, decision).await
    }

    async fn stop_run(&self, tenant: &TenantId, run: &AgentRun) -> Result<(), RuntimeError> {
        if self.is_linked(tenant) {
            return self.agent.api()?.stop_run(run).await;
        }
        self.others.stop_run(tenant, run).await
    }
}
