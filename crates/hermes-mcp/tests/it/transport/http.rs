//! The HTTP wires, over real sockets.

mod auth;
mod exchange;
pub(crate) mod faults;
mod limits;
mod preflight;
mod proxy;
mod redirects;
pub(crate) mod server;
mod sessions;
mod sse;
mod tls;

use std::{collections::HashMap, time::Duration};

use hermes_config::server::HttpSettings;
use hermes_mcp::{
    http_client::client,
    transport::http::{HttpPeer, PeerError, transport},
};
use rmcp::{
    ServiceError,
    model::{
        ClientConfig, ClientJsonRpcMessage, ClientRequest, PingRequest, ProtocolVersion, RequestId,
        Tool,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService,
    },
    transport::streamable_http_client::{StreamableHttpClient, StreamableHttpPostResponse},
};
use tokio::time::timeout;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

fn settings(url: &str, headers: &[(&str, &str)]) -> HttpSettings {
    HttpSettings {
        url: url.into(),
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect(),
        ..HttpSettings::default()
    }
}

fn peer(settings: &HttpSettings) -> HttpPeer {
    HttpPeer::new(client(settings, CONNECT_TIMEOUT).unwrap(), settings).unwrap()
}

fn ping() -> ClientJsonRpcMessage {
    ClientJsonRpcMessage::request(
        ClientRequest::PingRequest(PingRequest::default()),
        RequestId::Number(1),
    )
}

/// Posts a ping without MCP session and token.
async fn post_ping(settings: &HttpSettings) -> Result<StreamableHttpPostResponse, PeerError> {
    peer(settings)
        .post_message(
            settings.url.as_str().into(),
            ping(),
            None,
            None,
            HashMap::new(),
        )
        .await
}

type Client = RunningService<RoleClient, ClientConfig>;

/// Connects an MCP client over Streamable HTTP.
async fn connect(
    settings: &HttpSettings,
    lifecycle: ClientLifecycleMode,
) -> Result<Client, Box<ClientInitializeError>> {
    legacy_client()
        .serve_with_lifecycle(transport(settings, peer(settings)), lifecycle)
        .await
        .map_err(Box::new)
}

/// Lists the tools. A reply that never comes fails the test instead of stopping it.
async fn list_tools(client: &Client) -> Result<Vec<Tool>, ServiceError> {
    let reply = timeout(Duration::from_secs(30), client.list_all_tools());
    reply.await.unwrap()
}

/// A client that names the last revision with a handshake.
fn legacy_client() -> ClientConfig {
    let mut client = ClientConfig::default();
    client.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
    client
}
