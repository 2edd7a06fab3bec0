//! The bridge over HTTP: where it listens, and for whom.

use std::net::SocketAddr;

use hermes_config::{BridgeSettings, Secret};
use hermes_gateway::bridge::Bridge;
use hermes_mcp::serve::{
    Principal,
    http::{self, HttpOptions},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{cli::ServeArgs, context::Context, failure::Failure};

pub(super) async fn serve(
    context: &Context,
    args: &ServeArgs,
    address: &str,
    settings: &BridgeSettings,
    token: impl FnOnce() -> Result<Secret<String>, Failure>,
    bridge: &Bridge,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let address = resolve(address).await?;
    let is_remote = !address.ip().is_loopback();
    if is_remote && !args.allow_remote {
        return Err(
            Failure::usage(format!("other machines can reach {address}"))
                .hint("`--allow-remote` allows that; whoever has the token can then read and send messages"),
        );
    }
    let mut options = HttpOptions {
        allowed_hosts: settings.http.allowed_hosts.clone(),
        allowed_origins: settings.http.allowed_origins.clone(),
        ..HttpOptions::default()
    };
    if is_remote && !address.ip().is_unspecified() {
        options.allowed_hosts.push(host(address));
    }
    if address.ip().is_unspecified() && options.allowed_hosts.is_empty() {
        context.output.warning(
            "only requests to `localhost` are answered; name the others in `bridge.http.allowed_hosts`",
        );
    }
    let token = token()?;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| Failure::failed(format!("{address} can not be listened on: {error}")))?;
    let address = listener.local_addr()?;
    let path = options.path.clone();
    let handlers = bridge.clone();
    let router = http::router(move || handlers.connection(), options, stop);
    let router = http::with_bearer(router, &token, Principal::new("bridge"));
    context.output.note(format!("listening on http://{address}{path}"));
    http::serve(listener, router, stop.clone())
        .await
        .map_err(|error| Failure::failed(error.to_string()))
}

async fn resolve(address: &str) -> Result<SocketAddr, Failure> {
    let unusable = |reason: String| {
        Failure::usage(format!("`{address}` is no address to listen on: {reason}"))
            .hint("give a host and a port, such as `127.0.0.1:8765`")
    };
    let mut found = tokio::net::lookup_host(address)
        .await
        .map_err(|error| unusable(error.to_string()))?;
    found.next().ok_or_else(|| unusable("it is unknown".into()))
}

/// An address as it stands in the header `Host`, without the port.
fn host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}
