//! One WebSocket of Socket Mode. The handshake goes through the HTTP client, so that TLS and proxies are those of every
//! other request.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hermes_config::random::random_number;
use reqwest::{
    Upgraded,
    header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE},
};
use tokio_websockets::{ClientBuilder, Limits, WebSocketStream};

use super::api::SlackApi;
use crate::send::root_cause;

/// Slack's envelopes are far smaller.
const MAX_ENVELOPE_BYTES: usize = 16 << 20;
/// What a WebSocket's key is hashed with (RFC 6455, section 1.3).
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

pub(super) type SlackSocket = WebSocketStream<Upgraded>;

/// Opens a socket. The address is a secret: no error names it.
pub(super) async fn connect(api: &SlackApi, address: &str) -> Result<SlackSocket, String> {
    let http = match address.split_once("://") {
        Some(("wss", rest)) => format!("https://{rest}"),
        Some(("ws", rest)) => format!("http://{rest}"),
        _ => return Err("Slack returned an address that is not a WebSocket's".into()),
    };
    let url = api
        .check_url(&http)
        .map_err(|reason| format!("Slack returned an unusable WebSocket address: {reason}"))?;
    let key =
        STANDARD.encode([random_number().to_ne_bytes(), random_number().to_ne_bytes()].concat());
    let response = api
        .client()
        .get(url)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, &key)
        .send()
        .await
        .map_err(|error| root_cause(&error.without_url()))?;
    let status = response.status().as_u16();
    let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
    if status != 101 {
        return Err(format!("the WebSocket was refused with status {status}"));
    }
    if accept.is_none_or(|accept| accept.as_bytes() != accept_value(&key).as_bytes()) {
        return Err("the WebSocket was answered by something else than Slack".into());
    }
    let upgraded = response
        .upgrade()
        .await
        .map_err(|error| root_cause(&error.without_url()))?;
    let limits = Limits::default().max_payload_len(Some(MAX_ENVELOPE_BYTES));
    Ok(ClientBuilder::new().limits(limits).take_over(upgraded))
}

fn accept_value(key: &str) -> String {
    let hashed = aws_lc_rs::digest::digest(
        &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{ACCEPT_SUFFIX}").as_bytes(),
    );
    STANDARD.encode(hashed.as_ref())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_key_is_hashed_as_in_the_standard() {
        assert_eq!(
            super::accept_value("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }
}
