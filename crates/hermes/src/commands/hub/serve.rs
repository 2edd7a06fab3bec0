//! `hermes hub serve`: a Hub in the foreground, until a signal.

use std::collections::BTreeMap;

use hermes_hub::settings::SettingsSources;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    cli::{DataDirArgs, HubServeArgs},
    commands::hub::client::environment_variables,
    context::{Context, RuntimeThreads, run_future},
    embedded_hub,
    embedded_hub::{MetricsPort, PreparedHub, RunningHub},
    failure::{Failure, FailureKind},
    logging,
    service_manager::ServiceManagerSocket,
    telemetry,
};

/// How long blocking work may take at shutdown.
const SHUTDOWN_GRACE: std::time::Duration = std::time::Duration::from_secs(1);

pub(super) fn run(context: &Context, args: &HubServeArgs) -> Result<(), Failure> {
    let sources = sources(args)?;
    let settings = embedded_hub::load_settings(&sources)?;
    telemetry::start_with(&settings.telemetry, "hermes-hub").map_err(Failure::usage)?;
    match args.verbose {
        0 => logging::log_json_to_file(settings.data_dir.join("logs").join("hub.log"))?,
        1 => logging::log_to_terminal_or_json("info")?,
        _ => logging::log_to_terminal_or_json("debug")?,
    }
    let work = async {
        // Before anybody is told that it runs, and so may want it to stop.
        let signals = HubSignals::new()?;
        let manager = ServiceManagerSocket::from_environment();
        let prepared = PreparedHub::open(settings, MetricsPort::Required).await?;
        let token = prepared.settings.admin_token_file.clone();
        let is_new = prepared.new_token.is_some();
        let isolation = prepared.isolation.clone();
        let tenants = prepared.tenants.runtime();
        let hosted = prepared.start(tenants).await?;
        let output = context.output;
        output.note(format!("The Hub listens on {}", hosted.url()));
        if let Some(address) = hosted.metrics {
            output.note(format!("Metrics: http://{address}/metrics"));
        }
        let made = if is_new { " (made just now)" } else { "" };
        // Of several nodes, one has made it.
        if token.exists() {
            output.note(format!("Admin token: in `{}`{made}", token.display()));
        }
        output.note(format!("Isolation: {isolation}"));
        output.json(json!({
            "url": hosted.url(), "pid": std::process::id(), "admin_token_file": token, "isolation": isolation,
        }));
        manager.notify_ready();
        run_until_stopped(context, hosted, &sources, signals, &manager).await
    };
    run_future(RuntimeThreads::Processors, SHUTDOWN_GRACE, Box::pin(work))
}

/// Serves until a signal, then lets what is under way end.
async fn run_until_stopped(
    context: &Context,
    mut hosted: RunningHub,
    sources: &SettingsSources,
    mut signals: HubSignals,
    manager: &ServiceManagerSocket,
) -> Result<(), Failure> {
    let ended = loop {
        tokio::select! {
            failure = hosted.wait_for_failure() => break Err(failure),
            sign = signals.next() => match sign {
                HubSignal::Stop(name) => {
                    context.output.note(format!("{name}: stopping."));
                    break Ok(());
                }
                HubSignal::Reload => reload_settings(context, &hosted, sources),
            },
        }
    };
    manager.notify_stopping();
    let closing = hosted.close();
    tokio::pin!(closing);
    loop {
        tokio::select! {
            () = &mut closing => return ended,
            sign = signals.next() => if matches!(sign, HubSignal::Stop(_)) {
                return Err(Failure::new(FailureKind::Interrupted, "interrupted while stopping; the remaining processes are killed"));
            }
        }
    }
}

/// Takes up what of the settings can change while the Hub runs.
fn reload_settings(context: &Context, hosted: &RunningHub, sources: &SettingsSources) {
    match embedded_hub::load_settings(sources) {
        Ok(settings) => {
            hosted.hub.reload(&settings);
            context.output.note("SIGHUP: the settings are read again.");
        }
        Err(failure) => {
            context.output.warning(format!(
                "the settings stay as they are: {}",
                failure.message
            ));
        }
    }
}

/// Where the settings come from.
pub(super) fn sources(args: &HubServeArgs) -> Result<SettingsSources, Failure> {
    let mut sources = local_sources(&args.data);
    for text in &args.settings {
        let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, value) = pair.ok_or_else(|| {
            Failure::usage(format!(
                "`--set {text}` must be `KEY=VALUE`, such as `runtime=mock`"
            ))
        })?;
        sources.flags.insert(key.to_owned(), value.to_owned());
    }
    if let Some(listen) = &args.listen {
        sources.flags.insert("listen".into(), listen.clone());
    }
    Ok(sources)
}

/// The same without what only a running Hub needs.
pub(super) fn local_sources(args: &DataDirArgs) -> SettingsSources {
    let data_dir = args.data_dir.as_ref();
    let flags: BTreeMap<String, String> = data_dir
        .map(|path| ("data_dir".to_owned(), path.to_string_lossy().into_owned()))
        .into_iter()
        .collect();
    SettingsSources {
        file: args.config.clone(),
        flags,
        environment: environment_variables(),
    }
}

enum HubSignal {
    Stop(&'static str),
    Reload,
}

struct HubSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl HubSignals {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> HubSignal {
        tokio::select! {
            _ = self.interrupt.recv() => HubSignal::Stop("SIGINT"),
            _ = self.terminate.recv() => HubSignal::Stop("SIGTERM"),
            _ = self.hang_up.recv() => HubSignal::Reload,
        }
    }
}
