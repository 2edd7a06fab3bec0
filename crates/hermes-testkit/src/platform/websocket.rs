//! WebSockets on the port of a platform's API.

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper_util::rt::TokioIo;
use tokio_websockets::{ServerBuilder, WebSocketStream};

pub(super) type PlatformSocket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// What a WebSocket's key is hashed with.
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

pub(super) fn is_upgrade(request: &Request) -> bool {
    request.headers().contains_key(header::SEC_WEBSOCKET_KEY)
}

/// Answers the opening handshake. The socket is then served by a task, which ends with the runtime of the server at the
/// latest.
#[expect(
    clippy::disallowed_methods,
    reason = "the task lives as long as its socket, which the server does not wait for"
)]
pub(super) fn accept<F>(
    mut request: Request,
    serve: impl FnOnce(PlatformSocket) -> F + Send + 'static,
) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let Some(accept) = accept_value(request.headers()) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            serve(ServerBuilder::new().serve(TokioIo::new(upgraded))).await;
        }
    });
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, accept)
        .body(Body::empty());
    response.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

fn accept_value(headers: &HeaderMap) -> Option<String> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?.to_str().ok()?;
    let hashed = aws_lc_rs::digest::digest(
        &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{ACCEPT_SUFFIX}").as_bytes(),
    );
    Some(STANDARD.encode(hashed.as_ref()))
}
