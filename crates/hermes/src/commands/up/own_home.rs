//! The user's own home under `hermes up`: its gateway runs in this process, or another one that is there is used.

use std::{sync::Arc, time::Duration};

use hermes_agent::conversation::{Agent, AgentParts};
use hermes_config::{Home, Settings};
use hermes_gateway::{
    api::{self, AllowedHosts, ApiListener},
    gateway::{ControlMode, Gateway, GatewayParts, HubHome},
    inbound::LiveGateway,
    instance::{self, GatewayState, Instance, InstanceError},
    messenger::HomeMessenger,
    ticker,
};
use hermes_hub::TenantId;
use hermes_store::{Access, Store, cron::remove_heartbeat};
use tokio::{net::UnixListener, sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    super::gateway::{ApiServerPlan, working_directory},
    configuration::SettingsConsumers,
    system::UpContext,
};
use crate::{
    context::Context,
    embedded_hub::{
        PreparedHub,
        chat_runs::HubMeter,
        runtime::{ApplyVariables, LinkedAgent},
        teams,
    },
    failure::Failure,
    private_routes::RuntimeKey,
};

/// Who is the gateway of the home.
pub(super) enum GatewayOwner {
    /// This process.
    Ours(Instance),
    /// Another process; what is to be said about it.
    Others(String),
}

/// Becomes the gateway of the home, unless there is one.
pub(super) fn claim_gateway(home: &Home) -> Result<GatewayOwner, Failure> {
    match Instance::acquire(home) {
        Ok(instance) => Ok(GatewayOwner::Ours(instance)),
        Err(InstanceError::AlreadyRunning { holder }) => {
            let process = holder.map(|holder| format!(" (process {})", holder.pid));
            Ok(GatewayOwner::Others(format!(
                "Another gateway of this home is running{}. It keeps the platforms and the jobs",
                process.unwrap_or_default()
            )))
        }
        Err(error) => Err(Failure::failed(error.to_string())),
    }
}

/// The gateway of the home in this process.
pub(super) struct OwnHome {
    gateway: Gateway,
    live: LiveGateway,
    tasks: JoinSet<()>,
    stop: CancellationToken,
    drain: Duration,
}

impl OwnHome {
    /// Opens it, and gives what the Hub that is prepared drives it by.
    pub(super) async fn open(
        context: &Context,
        settings: &Settings,
        up: UpContext,
        prepared: &PreparedHub,
        instance: Instance,
        tenant: &TenantId,
    ) -> Result<(Self, LinkedAgent), Failure> {
        let UpContext {
            configuration,
            host,
            server_requests: answers,
        } = up;
        // The lock of the home's gateway is ours, so nobody else lets its jobs run.
        remove_heartbeat(&context.home);
        let store = Store::open(&context.home, Access::ReadWrite).await?;
        let directory = working_directory(context);
        // The Hub gives it the real one when it takes the home up.
        let key = RuntimeKey::new(String::new().into());
        let socket = prepared.private_path.as_deref();
        let parts = AgentParts {
            // A policy that changes would start what safe mode leaves alone.
            host: (!context.is_safe_mode()).then(|| host.clone()),
            environment: std::env::vars_os().collect(),
            policy: answers.policy().clone(),
            teams: socket.and_then(|socket| teams::connect(socket, key.clone(), &directory)),
            messenger: Some(HomeMessenger::with_policy(&context.home, answers.policy())),
            ..AgentParts::new(context.home.clone(), store)
        };
        let meter = socket.and_then(|socket| HubMeter::connect(socket, key.clone()));
        let gateway = Gateway::open(GatewayParts {
            agent: Agent::new(parts, settings.clone()),
            instance: Arc::new(instance),
            // The Hub keeps the clock.
            control_mode: ControlMode::Hub {
                tenant: tenant.to_string(),
                home: HubHome::Linked,
            },
            directory,
            elicitation: answers.people(),
            on_settings: Some(answers.settings_callback()),
            meter,
        })
        .await?;
        let data_dir = &prepared.settings.data_dir;
        let users = SettingsConsumers {
            host,
            server_requests: answers,
            gateway: Some(gateway.clone()),
        };
        let take_variables: ApplyVariables = Box::new(move |variables| {
            let (configuration, users) = (configuration.clone(), users.clone());
            Box::pin(async move { configuration.apply_variables(&users, variables).await })
        });
        let (agent, listener, for_hub) =
            LinkedAgent::in_process(data_dir, tenant, key, take_variables)?;
        let api = ApiListener::Unix(UnixListener::from_std(listener)?);
        let router = api::router(gateway.clone(), &for_hub, AllowedHosts::Any);
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn({
            let stop = stop.clone();
            async move {
                if let Err(error) = api::serve(api, router, stop).await {
                    tracing::error!(%error, "agent API listener failed; the Hub cannot reach this home");
                }
            }
        });
        let live = LiveGateway::start(&gateway).await?;
        mark_started(&gateway);
        let home = Self {
            gateway,
            live,
            tasks,
            stop,
            drain: settings.agent.restart_drain_timeout,
        };
        Ok((home, agent))
    }

    /// Opens it without a Hub: it keeps its own clock, and offers the API that its settings name.
    pub(super) async fn open_without_hub(
        context: &Context,
        settings: &Settings,
        up: UpContext,
        instance: Instance,
        message_sender: mpsc::Sender<String>,
    ) -> Result<Self, Failure> {
        let store = Store::open(&context.home, Access::ReadWrite).await?;
        let UpContext {
            host,
            server_requests: answers,
            ..
        } = up;
        let parts = AgentParts {
            host: (!context.is_safe_mode()).then(|| host.clone()),
            environment: std::env::vars_os().collect(),
            policy: answers.policy().clone(),
            messenger: Some(HomeMessenger::with_policy(&context.home, answers.policy())),
            ..AgentParts::new(context.home.clone(), store)
        };
        let gateway = Gateway::open(GatewayParts {
            agent: Agent::new(parts, settings.clone()),
            instance: Arc::new(instance),
            control_mode: ControlMode::Own,
            directory: working_directory(context),
            elicitation: answers.people(),
            on_settings: Some(answers.settings_callback()),
            meter: None,
        })
        .await?;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn({
            let (gateway, stop) = (gateway.clone(), stop.clone());
            async move { ticker::run_ticker(&gateway, &stop).await }
        });
        let plan = ApiServerPlan::new(&settings.gateway.api_server, None, None);
        tasks.spawn({
            let (gateway, stop) = (gateway.clone(), stop.clone());
            async move { plan.serve(&gateway, &message_sender, &stop).await }
        });
        let live = LiveGateway::start(&gateway).await?;
        mark_started(&gateway);
        Ok(Self {
            gateway,
            live,
            tasks,
            stop,
            drain: settings.agent.restart_drain_timeout,
        })
    }

    /// The gateway, for whoever changes its settings.
    pub(super) fn gateway(&self) -> Gateway {
        self.gateway.clone()
    }

    /// Lets runs end and closes what it opened. The servers are not its own.
    pub(super) async fn close(mut self) {
        set_state(&self.gateway, GatewayState::Draining);
        self.gateway.runs().stop_accepting();
        self.live.stop_receiving().await;
        self.gateway.drain(self.drain).await;
        self.live.close().await;
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if ended.is_err() {
                tracing::error!("home task panicked");
            }
        }
        self.gateway.close().await;
        self.gateway.agent().store().close().await;
        let reason = Some("`hermes up` ended".to_owned());
        self.gateway
            .instance()
            .mark_stopped(GatewayState::Stopped, reason);
    }
}

fn mark_started(gateway: &Gateway) {
    if let Err(error) = gateway.instance().mark_started() {
        tracing::warn!(%error, "failed to write the gateway state");
    }
}

fn set_state(gateway: &Gateway, state: GatewayState) {
    let changed = gateway
        .instance()
        .update_state(|file| file.gateway_state = state);
    if let Err(error) = changed {
        tracing::warn!(%error, "failed to write the gateway state");
    }
}

/// The agent of a gateway that runs in another process, by its local API if it has one.
pub(super) fn agent_in_other_process(home: &Home, settings: &Settings) -> LinkedAgent {
    let api = &settings.gateway.api_server;
    let serves = instance::read_last_state(home)
        .and_then(|state| {
            state
                .platforms
                .get("api_server")
                .map(|platform| platform.state == "connected")
        })
        .unwrap_or(false);
    let Some(key) = api.key.clone().filter(|_| serves && api.port != 0) else {
        return LinkedAgent::unreachable(
            "another gateway of this home is running and offers no HTTP API; set API_SERVER_KEY for it and restart it, or \
             stop it",
        );
    };
    let host = match api.host.as_str() {
        "0.0.0.0" | "::" => "127.0.0.1",
        host => host,
    };
    match LinkedAgent::in_other_process(&format!("http://{host}:{}", api.port), key) {
        Ok(agent) => agent,
        Err(error) => LinkedAgent::unreachable(error.to_string()),
    }
}
