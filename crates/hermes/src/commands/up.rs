//! `hermes up`: runs the Hub with the user's own home in it, connects every server, shows them live, follows the
//! configuration, and stops everything at Ctrl-C.

use std::{sync::Arc, time::Duration};

use hermes_agent::{conversation::Agent, policy::PolicyHandle};
use hermes_config::Settings;
use hermes_mcp::{
    ConfigWatch, Host, HostOptions, LinkStatus, ServerStatus, control::ControlSocket,
    process::GuardHandle,
};
use serde_json::json;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::state::pluralize;
use crate::{
    cli::UpArgs,
    context::{Context, RuntimeThreads, run_future},
    failure::{Failure, FailureKind},
    logging,
    question::browser,
    server_requests::ServerRequests,
    telemetry,
};

mod configuration;
mod frame;
mod hub;
mod live_table;
mod own_home;
mod platforms;
mod system;
mod view;

pub(super) use configuration::write_first_config;
use configuration::{SettingsConsumers, UpConfiguration};
use platforms::AccountWatch;
use system::{UpContext, UpSystem};
use view::UpView;

/// Beyond the longest `connect_timeout`, for processes to be cleared away.
const SETTLE_MARGIN: Duration = Duration::from_secs(5);
/// How long changes may take that belong together. Showing all servers takes longer than starting some of them does.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// Messages that wait to be shown; they are few, and senders may wait.
const MESSAGE_QUEUE: usize = 8;
/// How long blocking work may take at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

pub(super) fn run(context: &Context, args: &UpArgs) -> Result<(), Failure> {
    if context.output.is_json() && !args.once {
        return Err(
            Failure::usage("`up --json` needs `--once`: it prints one object at the end")
                .hint("`hermes mcp status --json` asks a running `hermes up`"),
        );
    }
    // `--once` has no Hub.
    let started = if args.once {
        telemetry::start_for_home("hermes")
    } else {
        telemetry::start_with(&hub::load_hub_settings()?.telemetry, "hermes")
    };
    started.map_err(Failure::usage)?;
    logging::log_to_file(&context.home)?;
    write_first_config(context)?;
    let configuration = Arc::new(UpConfiguration::new(context));
    // It looks before the file is read, so that no edit is missed.
    let watch = (!args.once).then(|| ConfigWatch::new(&context.home));
    // Connecting alone does not keep several threads busy.
    let threads = if args.once {
        RuntimeThreads::Current
    } else {
        RuntimeThreads::Two
    };
    let work = async {
        // It gets ready while the configuration is read.
        let guard = if args.once {
            context.start_guard_early()?
        } else {
            None
        };
        let settings = configuration.load_at_start(context)?;
        Box::pin(run_up(
            context,
            args,
            &configuration,
            &settings,
            watch,
            guard,
        ))
        .await
    };
    run_future(threads, SHUTDOWN_GRACE, Box::pin(work))
}

async fn run_up(
    context: &Context,
    args: &UpArgs,
    configuration: &Arc<UpConfiguration>,
    settings: &Settings,
    watch: Option<ConfigWatch>,
    guard: Option<Arc<GuardHandle>>,
) -> Result<(), Failure> {
    let mut signals = UpSignals::new()?;
    // A port that is taken is told before anything is started.
    let prepared = if args.once {
        None
    } else {
        let drain = settings.agent.restart_drain_timeout;
        Some(hub::prepare_hub(args, drain, &context.home).await?)
    };
    let answers = Arc::new(ServerRequests::for_gateway(
        context,
        settings,
        PolicyHandle::default(),
    ));
    let mut view = UpView::new(context);
    let options = HostOptions {
        request_handler: answers.handler(),
        reserved_names: Agent::reserved_names(),
        started_guard: guard,
        ..HostOptions::new(context.home.clone(), context.guard_program()?)
    };
    let host = Host::start(options, settings).await;
    let mut system = None;
    let (message_sender, mut messages) = mpsc::channel(MESSAGE_QUEUE);
    if let Some(prepared) = prepared {
        answers.expect_model();
        let up = UpContext {
            configuration: configuration.clone(),
            host: host.clone(),
            server_requests: answers.clone(),
        };
        let ways = (&mut view, &message_sender);
        match UpSystem::start(context, prepared, settings, up, ways).await {
            Ok(started) => system = Some(started),
            Err(failure) => {
                host.shutdown().await;
                return Err(failure);
            }
        }
    }

    // At most these live beside the servers: questions of other commands, and the configuration.
    let mut tasks = JoinSet::new();
    if let Some(watch) = watch {
        let users = SettingsConsumers {
            host: host.clone(),
            server_requests: answers.clone(),
            gateway: system.as_ref().and_then(UpSystem::gateway),
        };
        serve_control_requests(&mut tasks, &users, configuration, &mut view);
        configuration.follow_file(&mut tasks, users, settings, watch, message_sender);
        let link = system.as_ref().and_then(UpSystem::sign_in_link);
        if let Some(url) = link.filter(|_| !args.no_open && context.output.is_interactive()) {
            tasks.spawn_blocking(move || {
                browser::open_url(url.expose());
            });
        }
    }
    let mut settled = std::pin::pin!(wait_until_settled(args, &host, settings));
    let mut changes = host.subscribe_changes();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    let gateway = system.as_ref().and_then(UpSystem::gateway);
    let mut accounts = AccountWatch::new(context, gateway, settings);
    if args.once {
        // Most servers settle before anybody could read that they are being connected.
        changes.mark_changed();
    } else {
        view.show(&host);
    }
    loop {
        tokio::select! {
            () = pass_burst(&mut changes) => {}
            Some(text) = messages.recv() => view.print_message(&text),
            _ = seconds.tick(), if view.counts_down() => {}
            lines = accounts.next_change(), if !args.once => view.set_accounts(lines),
            sign = signals.next() => match sign {
                UpSignal::Resized => view.handle_resize(),
                UpSignal::Stop => break,
            },
            () = &mut settled => {
                let servers = host.status();
                view.show_servers(&host, &servers);
                host.shutdown().await;
                // The program ends: thousands of tools need not be taken apart one by one.
                std::mem::forget(host.clone());
                return print_report(context, &servers);
            }
        }
        view.show(&host);
    }
    tasks.shutdown().await;
    if let Some(system) = system {
        tokio::select! {
            () = system.close() => {}
            () = signals.stop() => return Err(interrupted()),
        }
    }
    stop_servers(&host, &mut view, &mut signals).await
}

/// Waits for a change, and for those that come with it. Given up half-way nothing is lost: whoever waits shows all
/// that is known then.
async fn pass_burst(changes: &mut watch::Receiver<u64>) {
    if changes.changed().await.is_ok() {
        tokio::time::sleep(DEBOUNCE).await;
        changes.mark_unchanged();
    }
}

fn interrupted() -> Failure {
    Failure::new(
        FailureKind::Interrupted,
        "interrupted while stopping; the remaining processes are killed",
    )
}

/// Stops the servers, showing how they go. Who cannot wait presses Ctrl-C once more.
async fn stop_servers(
    host: &Host,
    view: &mut UpView,
    signals: &mut UpSignals,
) -> Result<(), Failure> {
    tracing::info!("stopping");
    view.begin_stopping(host);
    let mut changes = host.subscribe_changes();
    let mut shutdown = std::pin::pin!(host.shutdown());
    loop {
        view.show(host);
        tokio::select! {
            () = &mut shutdown => break,
            _ = changes.changed() => {}
            sign = signals.next() => match sign {
                UpSignal::Resized => view.handle_resize(),
                UpSignal::Stop => return Err(interrupted()),
            },
        }
    }
    view.end_stopping(host);
    Ok(())
}

fn serve_control_requests(
    tasks: &mut JoinSet<()>,
    users: &SettingsConsumers,
    configuration: &Arc<UpConfiguration>,
    view: &mut UpView,
) {
    // A reload that somebody asks for would start what safe mode leaves alone.
    if configuration.is_safe_mode() {
        return;
    }
    match ControlSocket::open(users.host.home()) {
        Ok(socket) => {
            let (configuration, users) = (configuration.clone(), users.clone());
            tasks.spawn(async move {
                let host = users.host.clone();
                let reload = move |_| {
                    let (configuration, users) = (configuration.clone(), users.clone());
                    async move { configuration.reload(&users).await }
                };
                socket.serve_with(&host, reload).await;
            });
        }
        Err(error) => view.print_message(&format!(
            "warning: `hermes mcp status` and `reload` cannot reach this process: {error}"
        )),
    }
}

/// Waits for `--once`; otherwise for ever.
async fn wait_until_settled(args: &UpArgs, host: &Host, settings: &Settings) {
    if args.once {
        host.wait_until_settled(settle_timeout(settings)).await;
    } else {
        std::future::pending::<()>().await;
    }
}

fn settle_timeout(settings: &Settings) -> Duration {
    let limits = settings.servers.iter().filter_map(|entry| {
        let server = entry.server.as_ref().ok()?;
        server.enabled.then_some(server.connect_timeout)
    });
    limits.max().unwrap_or_default() + SETTLE_MARGIN
}

/// The end of `--once`.
fn print_report(context: &Context, servers: &[ServerStatus]) -> Result<(), Failure> {
    let works = |status: LinkStatus| {
        matches!(
            status,
            LinkStatus::Ready | LinkStatus::Lazy | LinkStatus::Disabled
        )
    };
    let failed: Vec<&str> = servers
        .iter()
        .filter(|server| !works(server.status))
        .map(|server| server.name.as_str())
        .collect();
    if failed.is_empty() {
        context.output.json(json!({"servers": servers}));
        return Ok(());
    }
    let message = format!(
        "{} of {} failed: {}",
        failed.len(),
        pluralize(servers.len(), "server"),
        failed.join(", ")
    );
    if context.output.is_json() {
        context
            .output
            .json_failure(&message, json!({"servers": servers}));
        return Err(Failure::new(FailureKind::AlreadyPrinted, message));
    }
    Err(Failure::failed(message).hint(
        "`hermes mcp doctor` looks for the reason, `hermes logs mcp` shows what servers print",
    ))
}

/// What the user or the system wants.
enum UpSignal {
    Stop,
    Resized,
}

/// The signals that say so.
struct UpSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    window: Signal,
}

impl UpSignals {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            window: signal(SignalKind::window_change())?,
        })
    }

    /// Waits for a signal that ends the program.
    async fn stop(&mut self) {
        while matches!(self.next().await, UpSignal::Resized) {}
    }

    async fn next(&mut self) -> UpSignal {
        tokio::select! {
            _ = self.interrupt.recv() => UpSignal::Stop,
            _ = self.terminate.recv() => UpSignal::Stop,
            _ = self.hang_up.recv() => UpSignal::Stop,
            _ = self.window.recv() => UpSignal::Resized,
        }
    }
}
