//! A look at an address before the first connect: a web page is told from an MCP endpoint with a clear message.

use std::{collections::HashMap, time::Duration};

use http::{Method, StatusCode, header};
use reqwest::Response;
use rmcp::transport::common::http_header::JSON_MIME_TYPE;
use serde_json::json;
use tokio::time::timeout;
use url::Url;

use super::{ACCEPTED_TYPES, HttpPeer, content_type, is_mcp_type};
use crate::http_client::without_query;

/// The limit of each request.
const PREFLIGHT_TIMEOUT: Duration = Duration::from_secs(5);

/// An address that cannot be an MCP endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreflightError {
    /// It serves something else, and takes no MCP message.
    #[error(
        "`{address}` looks like a web page ({content_type}), not an MCP endpoint; check `url`, which often ends in \
         `/mcp`, or set `skip_preflight: true`"
    )]
    WebPage {
        /// The address, without its query.
        address: String,
        /// What it serves.
        content_type: String,
    },
}

/// Asks the address for its content type, and only if MCP does not use that type, whether it accepts an MCP message.
///
/// A request that fails decides nothing: the real connect meets the failure and reports it.
pub async fn preflight(peer: &HttpPeer) -> Result<(), PreflightError> {
    let Some(served) = fetch_content_type(peer).await else {
        return Ok(());
    };
    if !served.status().is_success() || is_mcp_type(content_type(&served)) {
        return Ok(());
    }
    let served = match content_type(&served) {
        "" => "no content type".to_owned(),
        content_type => content_type.to_owned(),
    };
    match post_ping(peer).await {
        Some(reply) if !speaks_mcp(&reply) => Err(PreflightError::WebPage {
            address: Url::parse(&peer.url())
                .map(|url| without_query(&url))
                .unwrap_or_default(),
            content_type: served,
        }),
        _ => Ok(()),
    }
}

async fn fetch_content_type(peer: &HttpPeer) -> Option<Response> {
    let reply = send(peer, Method::HEAD, None).await?;
    match reply.status() {
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            send(peer, Method::GET, None).await
        }
        _ => Some(reply),
    }
}

/// A ping has no effect in any protocol revision, and every MCP server has some JSON answer to it.
async fn post_ping(peer: &HttpPeer) -> Option<Response> {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    send(peer, Method::POST, Some(ping.to_string())).await
}

fn speaks_mcp(reply: &Response) -> bool {
    is_mcp_type(content_type(reply))
        || matches!(
            reply.status(),
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT | StatusCode::UNAUTHORIZED
        )
        || reply.headers().contains_key(header::WWW_AUTHENTICATE)
}

async fn send(peer: &HttpPeer, method: Method, body: Option<String>) -> Option<Response> {
    let no_headers = HashMap::new();
    let reply = peer.send_following_redirects(peer.url(), method.clone(), |hop| {
        let mut request = peer
            .build_request(method.clone(), &hop, &no_headers, None)
            .header(header::ACCEPT, ACCEPTED_TYPES);
        if let Some(body) = body.clone() {
            request = request
                .header(header::CONTENT_TYPE, JSON_MIME_TYPE)
                .body(body);
        }
        async move { Ok(request.send().await?) }
    });
    timeout(PREFLIGHT_TIMEOUT, reply).await.ok()?.ok()
}
