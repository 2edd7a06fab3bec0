//! Streams of server-sent events.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures::Stream;

/// How often a keepalive comment is sent.
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// A comment: ignored by clients, but it keeps proxies from closing the stream.
pub(super) const KEEPALIVE_COMMENT: &str = ": keepalive\n\n";
pub(super) const CLOSED_COMMENT: &str = ": stream closed\n\n";

pub(super) fn event_stream_response(
    stream: impl Stream<Item = String> + Send + 'static,
) -> Response {
    use futures::StreamExt as _;
    let bytes = stream.map(|text| Ok::<_, Infallible>(Bytes::from(text)));
    let mut response = Response::new(Body::from_stream(bytes));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    let fresh = HeaderValue::from_static("no-cache, no-store");
    headers.insert(header::CACHE_CONTROL, fresh);
    response
}
