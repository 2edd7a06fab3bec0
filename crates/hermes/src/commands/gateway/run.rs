//! `hermes gateway run`: starts everything, follows the configuration, waits for a signal, and lets runs end.

use std::{path::PathBuf, sync::Arc, time::Duration};

use hermes_agent::{
    conversation::{Agent, AgentParts},
    policy::PolicyHandle,
    tools::{files::teams::Teams, terminal::CommandBounds},
};
use hermes_config::Settings;
use hermes_gateway::{
    gateway::{self, ControlMode, Gateway, GatewayParts},
    inbound::LiveGateway,
    instance::{self, GatewayState, Instance, InstanceError},
    messenger::HomeMessenger,
    ticker,
};
use hermes_mcp::{ConfigWatch, Host, HostOptions, control::ControlSocket};
use hermes_store::{Access, Store};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{accounts, notify::ServiceNotifier, stop_gateway};
use crate::{
    cli::GatewayRunArgs,
    commands::gateway::api_server::ApiServerPlan,
    context::{Context, RuntimeThreads, run_future},
    embedded_hub::{bots::HubBots, chat_runs::HubMeter, runtime::handover::HubHandover, teams},
    failure::{Failure, FailureKind},
    logging,
    server_requests::ServerRequests,
    telemetry,
};

/// Messages that wait to be shown; they are few, and senders may wait.
const MESSAGE_QUEUE: usize = 8;
/// Minimum time between two writes of the state.
const STATE_WRITE_INTERVAL: Duration = Duration::from_millis(200);
/// How long blocking work may take at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

pub(super) fn run(context: &Context, args: &GatewayRunArgs) -> Result<(), Failure> {
    telemetry::start_for_home("hermes-agent").map_err(Failure::usage)?;
    match args.verbose {
        0 => logging::log_to_file(&context.home)?,
        1 => logging::log_to_stderr_with_default("info")?,
        _ => logging::log_to_stderr_with_default("debug")?,
    }
    if args.detached {
        // The end of the terminal is not the end of the gateway.
        rustix::process::setsid().map_err(std::io::Error::from)?;
    }
    let inherited = HubHandover::read()?;
    telemetry::connect_hub(inherited.key.as_ref());
    // It looks before the file is read, so that no edit is missed.
    let watch = ConfigWatch::new(&context.home);
    let settings = gateway_settings(context, &inherited).map_err(|failure| Failure {
        kind: FailureKind::BadConfiguration,
        ..failure
    })?;
    let instance = Arc::new(claim_instance(context, args, &settings)?);
    let work = run_until_stopped(context, args, inherited, settings, watch, &instance);
    let outcome = run_future(RuntimeThreads::Two, SHUTDOWN_GRACE, Box::pin(work));
    if let Err(failure) = &outcome
        && instance.state().gateway_state == GatewayState::Starting
    {
        instance.mark_stopped(GatewayState::StartupFailed, Some(failure.message.clone()));
    }
    outcome
}

/// Becomes the home's gateway, in the place of another one if that is wanted.
fn claim_instance(
    context: &Context,
    args: &GatewayRunArgs,
    settings: &Settings,
) -> Result<Instance, Failure> {
    let home = &context.home;
    if args.replace
        && let Some(process) = instance::find_running(home)?
    {
        stop_gateway(home, &process, settings.agent.restart_drain_timeout)?;
    }
    Instance::acquire(home).map_err(|error| {
        let failure = Failure::failed(error.to_string());
        match error {
            InstanceError::AlreadyRunning { .. } => failure.hint(
                "`hermes gateway status` shows it; `hermes gateway run --replace` takes its place",
            ),
            InstanceError::Io { .. } => failure,
        }
    })
}

async fn run_until_stopped(
    context: &Context,
    args: &GatewayRunArgs,
    inherited: HubHandover,
    settings: Settings,
    watch: ConfigWatch,
    instance: &Arc<Instance>,
) -> Result<(), Failure> {
    let mut signals = GatewaySignals::new()?;
    let directory = working_directory(context);
    let teams = teams::from_environment(inherited.key.as_ref(), &directory);
    let hub_bots = inherited.key.as_ref().and_then(HubBots::from_environment);
    let meter = inherited.key.as_ref().and_then(HubMeter::from_environment);
    let plan = ApiServerPlan::new(
        &settings.gateway.api_server,
        inherited.key,
        inherited.listener,
    );
    let drain = settings.agent.restart_drain_timeout;
    let policy = PolicyHandle::new(inherited.policy);
    let answers = Arc::new(ServerRequests::for_gateway(
        context,
        &settings,
        policy.clone(),
    ));
    answers.expect_model();
    let bounds = inherited.bounds;
    let agent = start_agent(context, settings, &answers, policy, teams, bounds).await?;
    agent.set_operator_variables(inherited.variables);
    let gateway = Gateway::open(GatewayParts {
        agent: agent.clone(),
        instance: instance.clone(),
        control_mode: inherited.direction,
        directory,
        elicitation: answers.people(),
        on_settings: Some(answers.settings_callback()),
        meter,
    })
    .await?;

    let stop = CancellationToken::new();
    let (sender, mut messages) = mpsc::channel(MESSAGE_QUEUE);
    let mut tasks = JoinSet::new();
    serve_control_requests(&mut tasks, &gateway, &stop);
    spawn_ticker(&mut tasks, &gateway, &stop);
    spawn_config_watch(&mut tasks, &gateway, &stop, watch);
    spawn_state_writer(&mut tasks, &gateway, &stop);
    let notifier = Arc::new(ServiceNotifier::from_environment());
    spawn_watchdog(&mut tasks, &notifier, instance, &stop);
    let is_off = matches!(plan, ApiServerPlan::Off);
    tasks.spawn({
        let (gateway, stop, sender) = (gateway.clone(), stop.clone(), sender.clone());
        async move { plan.serve(&gateway, &sender, &stop).await }
    });
    let live = match hub_bots {
        // The locks of this user are out of a tenant's reach.
        Some(bots) => LiveGateway::start_with(&gateway, Arc::new(bots)).await?,
        None => LiveGateway::start(&gateway).await?,
    };
    log_state_error(instance.mark_started());
    notifier.ready();
    let note = |text: &str| note_event(context, args, text);
    note(&format!(
        "The gateway is running (process {}).",
        std::process::id()
    ));
    note_platforms(&gateway, &note);
    if is_off {
        note("No HTTP API: API_SERVER_KEY is not set.");
    }
    let reason = loop {
        tokio::select! {
            reason = signals.next() => break reason,
            Some(text) = messages.recv() => note(&text),
        }
    };

    gateway.runs().stop_accepting();
    notifier.stopping();
    note(&format!("{reason}: stopping."));
    log_state_error(instance.update_state(|file| file.gateway_state = GatewayState::Draining));
    let ending = async {
        live.stop_receiving().await;
        gateway.drain(drain).await;
        live.close().await;
        // The API tells its clients how their runs ended; everything else is done.
        stop.cancel();
        while let Some(ended) = tasks.join_next().await {
            if ended.is_err() {
                tracing::error!("gateway task panicked");
            }
        }
        gateway.close().await;
        if let Some(host) = agent.host() {
            host.shutdown().await;
        }
        agent.store().close().await;
    };
    let outcome = tokio::select! {
        () = ending => Ok(()),
        _ = signals.next() => Err(Failure::new(
            FailureKind::Interrupted,
            "interrupted while stopping; the remaining processes are killed",
        )),
    };
    instance.mark_stopped(GatewayState::Stopped, Some(reason.to_owned()));
    outcome
}

fn note_event(context: &Context, args: &GatewayRunArgs, text: &str) {
    tracing::info!("{text}");
    if !args.quiet {
        context.output.note(text);
    }
}

/// Says which bots are being connected. How that went is in the state, which changes later.
fn note_platforms(gateway: &Gateway, note: &dyn Fn(&str)) {
    let labels = accounts::configured_labels(&gateway.agent().settings().gateway);
    if !labels.is_empty() {
        let labels = labels.join(", ");
        note(&format!(
            "Platforms: {labels}. `hermes gateway status` shows how they are."
        ));
    } else if *gateway.control_mode() == ControlMode::Own {
        note("No messaging platform has a token; `hermes gateway setup` sets one up.");
    }
}

/// The settings, under a Hub without what its operator forbids.
fn gateway_settings(context: &Context, inherited: &HubHandover) -> Result<Settings, Failure> {
    match inherited.direction {
        ControlMode::Own => context.settings(),
        ControlMode::Hub { .. } => {
            let HubHandover {
                variables, policy, ..
            } = inherited;
            Ok(gateway::load_settings(&context.home, variables, policy)?)
        }
    }
}

/// The agent: the store is open, the servers are being connected.
async fn start_agent(
    context: &Context,
    settings: Settings,
    answers: &ServerRequests,
    policy: PolicyHandle,
    teams: Option<Arc<Teams>>,
    bounds: CommandBounds,
) -> Result<Agent, Failure> {
    let store = Store::open(&context.home, Access::ReadWrite).await?;
    let options = HostOptions {
        request_handler: answers.handler(),
        reserved_names: Agent::reserved_names(),
        ..HostOptions::new(context.home.clone(), context.guard_program()?)
    };
    let host = if context.is_safe_mode() {
        None
    } else {
        Some(Host::start(options, &settings).await)
    };
    let parts = AgentParts {
        host,
        environment: std::env::vars_os().collect(),
        messenger: Some(HomeMessenger::with_policy(&context.home, &policy)),
        policy,
        teams,
        bounds,
        ..AgentParts::new(context.home.clone(), store)
    };
    Ok(Agent::new(parts, settings))
}

/// Where conversations work: where the Hub says, else in the user's own directory.
pub(in crate::commands) fn working_directory(context: &Context) -> PathBuf {
    let given = std::env::var_os("HERMES_WORKSPACE").map(PathBuf::from);
    given
        .or_else(std::env::home_dir)
        .filter(|path| path.is_dir())
        .unwrap_or_else(|| context.home.path().to_owned())
}

/// Answers `hermes mcp status` and the like. Not under a Hub: a reload that the tenant asks for knows no policy.
fn serve_control_requests(tasks: &mut JoinSet<()>, gateway: &Gateway, stop: &CancellationToken) {
    let Some(host) = gateway.agent().host().cloned() else {
        return;
    };
    if *gateway.control_mode() != ControlMode::Own {
        return;
    }
    match ControlSocket::open(gateway.home()) {
        Ok(socket) => {
            let stop = stop.clone();
            tasks.spawn(async move {
                let _ = stop.run_until_cancelled(socket.serve(&host)).await;
            });
        }
        Err(error) => {
            tracing::warn!(%error, "control socket failed; `hermes mcp status` cannot reach this process");
        }
    }
}

/// Failing to write the state does not stop the gateway.
fn log_state_error(changed: Result<(), InstanceError>) {
    if let Err(error) = changed {
        tracing::warn!(%error, "failed to write the gateway state");
    }
}

/// Writes down how many runs are under way.
async fn write_state(gateway: &Gateway) {
    let mut active = gateway.runs().active_count();
    while active.changed().await.is_ok() {
        let count = *active.borrow_and_update();
        let gateway = gateway.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let instance = gateway.instance();
            log_state_error(instance.update_state(|file| file.active_agents = count));
        });
        if writing.await.is_err() {
            tracing::error!("writing the state of the gateway panicked");
        }
        tokio::time::sleep(STATE_WRITE_INTERVAL).await;
    }
}

/// The signals that end a gateway.
struct GatewaySignals {
    interrupt: Signal,
    terminate: Signal,
}

impl GatewaySignals {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

fn spawn_watchdog(
    tasks: &mut JoinSet<()>,
    notifier: &Arc<ServiceNotifier>,
    instance: &Arc<Instance>,
    stop: &CancellationToken,
) {
    let (notifier, instance, stop) = (notifier.clone(), instance.clone(), stop.clone());
    tasks.spawn(async move {
        let feeding = notifier.feed_watchdog(&instance);
        let _ = stop.run_until_cancelled(feeding).await;
    });
}

fn spawn_state_writer(tasks: &mut JoinSet<()>, gateway: &Gateway, stop: &CancellationToken) {
    let (gateway, stop) = (gateway.clone(), stop.clone());
    tasks.spawn(async move {
        let _ = stop.run_until_cancelled(write_state(&gateway)).await;
    });
}

fn spawn_config_watch(
    tasks: &mut JoinSet<()>,
    gateway: &Gateway,
    stop: &CancellationToken,
    watch: ConfigWatch,
) {
    let (gateway, stop) = (gateway.clone(), stop.clone());
    tasks.spawn(async move {
        let following = Box::pin(follow_config(&gateway, watch));
        let _ = stop.run_until_cancelled(following).await;
    });
}

fn spawn_ticker(tasks: &mut JoinSet<()>, gateway: &Gateway, stop: &CancellationToken) {
    let (gateway, stop) = (gateway.clone(), stop.clone());
    tasks.spawn(async move { ticker::run_ticker(&gateway, &stop).await });
}

/// Applies changes of the file for as long as it is polled.
async fn follow_config(gateway: &Gateway, mut watch: ConfigWatch) {
    loop {
        watch.wait_for_change().await;
        let settings = match gateway.load_settings() {
            Ok(settings) => settings,
            Err(error) => {
                tracing::warn!(%error, "invalid configuration; keeping the previous one");
                continue;
            }
        };
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
        if !settings.mcp.auto_reload {
            gateway.apply_settings(settings);
            tracing::info!(
                "configuration applied; `hermes mcp reload` applies changes of MCP servers"
            );
            continue;
        }
        match gateway.reload(settings).await {
            Some(report) if !report.is_noop() => tracing::info!(?report, "configuration reloaded"),
            _ => {
                let host = gateway.agent().host();
                let connecting = host.map(Host::servers_without_tools).unwrap_or_default();
                tracing::info!(
                    ?connecting,
                    "configuration reloaded; no server started or stopped"
                );
            }
        }
    }
}
