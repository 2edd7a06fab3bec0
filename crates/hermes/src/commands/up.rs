//! `hermes up`: runs the Hub with the user's own home in it, connects every server, shows them live, follows the
//! configuration, and stops everything at Ctrl-C.

use std::{sync::Arc, time::Duration};

use hermes_agent::{ceiling::InForce, conversation::Agent};
use hermes_config::Settings;
use hermes_mcp::{
    Host, HostOptions, control::ControlSocket, link::Status, status::ServerStatus,
    watch::ConfigWatch,
};
use serde_json::json;
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::state::count;
use crate::{
    answers::Answers,
    browser,
    cli::UpArgs,
    context::Context,
    failure::{Failure, Kind},
    logging,
};

mod configuration;
mod first_config;
pub(super) use first_config::write_if_missing as write_first_config;
mod frame;
mod hub;
mod live_table;
mod own_home;
mod system;
mod view;

use configuration::{Configuration, Users};
use system::{Around, System};
use view::View;

/// Beyond the longest `connect_timeout`, for processes to be cleared away.
const SETTLE_MARGIN: Duration = Duration::from_secs(5);
/// How long changes may take that belong together. Showing all servers takes longer than starting some of them does.
const BURST: Duration = Duration::from_millis(50);
/// Messages that wait to be shown; they are few, and senders may wait.
const MESSAGES: usize = 8;
/// How long blocking work may take at shutdown.
const LAST_WORK: Duration = Duration::from_secs(1);

pub(super) fn run(context: &Context, args: &UpArgs) -> Result<(), Failure> {
    if context.output.is_json() && !args.once {
        return Err(
            Failure::usage("`up --json` needs `--once`: it prints one object at the end")
                .hint("`hermes mcp status --json` asks a running `hermes up`"),
        );
    }
    logging::to_file(&context.home)?;
    first_config::write_if_missing(context)?;
    let configuration = Arc::new(Configuration::new(context));
    // It looks before the file is read, so that no edit is missed.
    let watch = (!args.once).then(|| ConfigWatch::new(&context.home));
    let settings = configuration.at_start(context)?;
    // Connecting alone does not keep several threads busy.
    let mut runtime = if args.once {
        Builder::new_current_thread()
    } else {
        Builder::new_multi_thread()
    };
    let runtime = runtime
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the async runtime: {error}")))?;
    let outcome = runtime.block_on(up(context, args, &configuration, &settings, watch));
    runtime.shutdown_timeout(LAST_WORK);
    outcome
}

async fn up(
    context: &Context,
    args: &UpArgs,
    configuration: &Arc<Configuration>,
    settings: &Settings,
    watch: Option<ConfigWatch>,
) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    // A port that is taken is told before anything is started.
    let prepared = if args.once {
        None
    } else {
        let drain = settings.agent.restart_drain_timeout;
        Some(hub::prepare(args, drain, &context.home).await?)
    };
    let answers = Arc::new(Answers::for_gateway(context, settings, InForce::default()));
    let mut view = View::new(context);
    let options = HostOptions {
        inquiries: answers.inquiries(),
        reserved_names: Agent::reserved_names(),
        ..HostOptions::new(context.home.clone(), context.guard()?)
    };
    let host = Host::start(options, settings).await;
    let mut system = None;
    let (say, mut said) = mpsc::channel(MESSAGES);
    if let Some(prepared) = prepared {
        answers.expect_model();
        let around = Around {
            configuration: configuration.clone(),
            host: host.clone(),
            answers: answers.clone(),
        };
        let ways = (&mut view, &say);
        match System::start(context, prepared, settings, around, ways).await {
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
        let users = Users {
            host: host.clone(),
            answers: answers.clone(),
            gateway: system.as_ref().and_then(System::gateway),
        };
        serve_questions(&mut tasks, &users, configuration, &mut view);
        configuration.follow(&mut tasks, users, settings, watch, say);
        let url = system.as_ref().and_then(System::url);
        if let Some(url) = url.filter(|_| !args.no_open && context.output.is_interactive()) {
            tasks.spawn_blocking(move || {
                browser::open(&url);
            });
        }
    }
    let limit = settle_limit(settings);
    let settled = async {
        if args.once {
            host.settled(limit).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    let mut settled = std::pin::pin!(settled);
    let mut changes = host.changes();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    if args.once {
        // Most servers settle before anybody could read that they are being connected.
        changes.mark_changed();
    } else {
        view.show(&host);
    }
    loop {
        tokio::select! {
            () = pass_burst(&mut changes) => {}
            Some(text) = said.recv() => view.say(&text),
            _ = seconds.tick(), if view.counts_down() => {}
            sign = signals.next() => match sign {
                Sign::Resized => view.resized(),
                Sign::Stop => break,
            },
            () = &mut settled => {
                let servers = host.status();
                view.show_servers(&host, &servers);
                host.shutdown().await;
                // The program ends: thousands of tools need not be taken apart one by one.
                std::mem::forget(host.clone());
                return report(context, &servers);
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
    stop(&host, &mut view, &mut signals).await
}

/// Waits for a change, and for those that come with it. Given up half-way nothing is lost: whoever waits shows all
/// that is known then.
async fn pass_burst(changes: &mut watch::Receiver<u64>) {
    if changes.changed().await.is_ok() {
        tokio::time::sleep(BURST).await;
        changes.mark_unchanged();
    }
}

fn interrupted() -> Failure {
    Failure::new(
        Kind::Interrupted,
        "interrupted while stopping; the remaining processes are killed",
    )
}

/// Stops the servers, showing how they go. Who cannot wait presses Ctrl-C once more.
async fn stop(host: &Host, view: &mut View, signals: &mut Signals) -> Result<(), Failure> {
    tracing::info!("stopping");
    view.begin_stopping(host);
    let mut changes = host.changes();
    let mut shutdown = std::pin::pin!(host.shutdown());
    loop {
        view.show(host);
        tokio::select! {
            () = &mut shutdown => break,
            _ = changes.changed() => {}
            sign = signals.next() => match sign {
                Sign::Resized => view.resized(),
                Sign::Stop => return Err(interrupted()),
            },
        }
    }
    view.end_stopping(host);
    Ok(())
}

fn serve_questions(
    tasks: &mut JoinSet<()>,
    users: &Users,
    configuration: &Arc<Configuration>,
    view: &mut View,
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
        Err(error) => view.say(&format!(
            "warning: `hermes mcp status` and `reload` cannot reach this process: {error}"
        )),
    }
}

fn settle_limit(settings: &Settings) -> Duration {
    let limits = settings.servers.iter().filter_map(|entry| {
        let server = entry.server.as_ref().ok()?;
        server.enabled.then_some(server.connect_timeout)
    });
    limits.max().unwrap_or_default() + SETTLE_MARGIN
}

/// The end of `--once`.
fn report(context: &Context, servers: &[ServerStatus]) -> Result<(), Failure> {
    let works = |status: Status| matches!(status, Status::Ready | Status::Lazy | Status::Disabled);
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
        count(servers.len(), "server"),
        failed.join(", ")
    );
    if context.output.is_json() {
        context
            .output
            .json_failure(&message, json!({"servers": servers}));
        return Err(Failure::new(Kind::Told, message));
    }
    Err(Failure::failed(message).hint(
        "`hermes mcp doctor` looks for the reason, `hermes logs mcp` shows what servers print",
    ))
}

/// What the user or the system wants.
enum Sign {
    Stop,
    Resized,
}

/// The signals that say so.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    window: Signal,
}

impl Signals {
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
        while matches!(self.next().await, Sign::Resized) {}
    }

    async fn next(&mut self) -> Sign {
        tokio::select! {
            _ = self.interrupt.recv() => Sign::Stop,
            _ = self.terminate.recv() => Sign::Stop,
            _ = self.hang_up.recv() => Sign::Stop,
            _ = self.window.recv() => Sign::Resized,
        }
    }
}
