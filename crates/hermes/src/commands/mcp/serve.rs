//! `hermes mcp serve`: the MCP server over this home's conversations; `hermes mcp demo`: the built-in one.

use std::time::Duration;

use hermes_gateway::{
    bridge::{Bridge, BridgeOptions, ChannelPush, ToolAccess},
    platforms::PlatformFilter,
};
use hermes_serve::stdio;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{cli::ServeArgs, context::Context, failure::Failure, logging, telemetry};

mod client_file;
mod http;
mod install;

use http::HttpEndpoint;

/// How long the databases may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

pub(super) fn run(context: &Context, args: &ServeArgs) -> Result<(), Failure> {
    if let Some(client) = &args.install {
        platform_filter(args, &[])?;
        return install::run(context, args, client);
    }
    telemetry::start_for_home("hermes-bridge").map_err(Failure::usage)?;
    logging::log_to_stderr_with_default(if args.verbose { "debug" } else { "warn" })?;
    let settings = context.written_settings()?;
    let platforms = platform_filter(args, &settings.bridge.platforms)?;
    let endpoint = match &args.http {
        Some(address) => Some(HttpEndpoint::prepare(context, args, address, &settings)?),
        None => None,
    };
    let options = BridgeOptions {
        access: if args.read_only {
            ToolAccess::ReadOnly
        } else {
            ToolAccess::All
        },
        push: match args.claude_channel.as_str() {
            "off" => ChannelPush::Off,
            "on" => ChannelPush::On,
            _ => ChannelPush::Auto,
        },
        platforms,
        ..BridgeOptions::default()
    };
    context.run_to_end(async {
        let stop = CancellationToken::new();
        let bridge = Bridge::new(context.home.clone(), settings, options);
        let serving = async {
            let outcome = match endpoint {
                Some(endpoint) => endpoint.serve(context, &bridge, &stop).await,
                None => stdio::serve(bridge.new_connection(), stop.clone())
                    .await
                    .map_err(|error| Failure::failed(error.to_string())),
            };
            stop.cancel();
            outcome
        };
        let opening = stop.run_until_cancelled(bridge.open_log());
        let (outcome, signals, _) = tokio::join!(serving, stop_on_signal(&stop), opening);
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, bridge.close()).await;
        outcome.and(signals)
    })
}

/// Whose conversations are shown: what the arguments say, else the configuration.
fn platform_filter(args: &ServeArgs, configured: &[String]) -> Result<PlatformFilter, Failure> {
    let (names, setting) = if args.platforms.is_empty() {
        (configured, "config.yaml: bridge.platforms")
    } else {
        (&*args.platforms, "--platforms")
    };
    let names: Vec<&str> = names.iter().flat_map(|name| name.split(',')).collect();
    PlatformFilter::from_names(&names).map_err(|unknown| {
        let words = PlatformFilter::WORDS.join(", ");
        Failure::usage(format!("{setting}: {unknown}")).hint(format!(
            "name messaging platforms such as telegram, or {words}"
        ))
    })
}

/// Ends everything when the process is told to.
async fn stop_on_signal(stop: &CancellationToken) -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = stop.cancelled() => {}
    }
    stop.cancel();
    Ok(())
}

pub(super) fn run_demo(context: &Context) -> Result<(), Failure> {
    context.block_on(async {
        hermes_serve::demo::serve_stdio()
            .await
            .map_err(|error| Failure::failed(error.to_string()))
    })
}
