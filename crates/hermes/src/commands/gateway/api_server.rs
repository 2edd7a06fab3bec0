//! The local HTTP API of the running gateway: its key, its listener, and retrying when a port is in use.

use std::{os::unix::net::UnixListener as StdUnixListener, time::Duration};

use hermes_config::{ApiServerSettings, Secret};
use hermes_gateway::{
    api::{self, AllowedHosts, ApiListener, MIN_KEY_CHARS, check_address},
    gateway::Gateway,
};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

/// Its name among the platforms.
const PLATFORM: &str = "api_server";
const INITIAL_RETRY_DELAY: Duration = Duration::from_secs(2);
const MAX_RETRY_DELAY: Duration = Duration::from_mins(1);

/// How the API is to be offered.
pub(in crate::commands) enum ApiServerPlan {
    /// Not at all.
    Off,
    /// On a socket that was passed down.
    Inherited(StdUnixListener, Secret<String>),
    /// On a port.
    Port(Box<ApiServerSettings>, Secret<String>),
}

impl ApiServerPlan {
    /// What the settings and the Hub want.
    pub(in crate::commands) fn new(
        settings: &ApiServerSettings,
        runtime_key: Option<Secret<String>>,
        listener: Option<StdUnixListener>,
    ) -> Self {
        match (runtime_key.or_else(|| settings.key.clone()), listener) {
            (None, _) => Self::Off,
            (Some(key), Some(listener)) => Self::Inherited(listener, key),
            (Some(key), None) => Self::Port(Box::new(settings.clone()), key),
        }
    }

    /// Serves until `stop` is cancelled. What fails is this alone: the gateway goes on without it.
    pub(in crate::commands) async fn serve(
        self,
        gateway: &Gateway,
        message_sender: &mpsc::Sender<String>,
        stop: &CancellationToken,
    ) {
        let (settings, key) = match self {
            Self::Off => return,
            Self::Inherited(listener, key) => {
                match UnixListener::from_std(listener) {
                    Ok(listener) => {
                        let api = ApiListener::Unix(listener);
                        serve_listener(gateway, &key, api, AllowedHosts::Any, stop).await;
                    }
                    Err(error) => {
                        report_fatal(gateway, message_sender, "socket_failed", &error.to_string())
                            .await;
                    }
                }
                return;
            }
            Self::Port(settings, key) => (settings, key),
        };
        if key.expose().chars().count() < MIN_KEY_CHARS {
            let problem = format!("API_SERVER_KEY has fewer than {MIN_KEY_CHARS} characters");
            return report_fatal(gateway, message_sender, "key_too_short", &problem).await;
        }
        let address = match check_address(&settings) {
            Ok(address) => address,
            Err(error) => {
                return report_fatal(gateway, message_sender, "bad_address", &error.to_string())
                    .await;
            }
        };
        let mut pause = INITIAL_RETRY_DELAY;
        let listener = loop {
            let error = match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(error) => error,
            };
            let (host, port) = address;
            let problem = format!("port {port} of {host} cannot be used: {error}");
            let instance = gateway.instance();
            instance.set_platform(PLATFORM, "retrying", Some(("port_in_use", &problem)));
            let _ = message_sender
                .send(format!("No HTTP API yet, retrying: {problem}"))
                .await;
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(MAX_RETRY_DELAY);
        };
        if let Ok(address) = listener.local_addr() {
            let _ = message_sender
                .send(format!("HTTP API on http://{address}"))
                .await;
        }
        let mut names = settings.allowed_hosts.clone();
        names.push(settings.host.clone());
        let check = AllowedHosts::Names(names);
        serve_listener(gateway, &key, ApiListener::Tcp(listener), check, stop).await;
    }
}

async fn serve_listener(
    gateway: &Gateway,
    key: &Secret<String>,
    listener: ApiListener,
    check: AllowedHosts,
    stop: &CancellationToken,
) {
    let instance = gateway.instance();
    instance.set_platform(PLATFORM, "connected", None);
    let router = api::router(gateway.clone(), key, check);
    if let Err(error) = api::serve(listener, router, stop.clone()).await {
        let problem = error.to_string();
        tracing::error!(%error, "HTTP API listener failed");
        instance.set_platform(PLATFORM, "fatal", Some(("socket_failed", &problem)));
    }
}

async fn report_fatal(
    gateway: &Gateway,
    message_sender: &mpsc::Sender<String>,
    code: &str,
    problem: &str,
) {
    gateway
        .instance()
        .set_platform(PLATFORM, "fatal", Some((code, problem)));
    let _ = message_sender
        .send(format!("warning: no HTTP API: {problem}"))
        .await;
}
