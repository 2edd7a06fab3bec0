//! Streams of server-sent events.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures::Stream;

/// How often a stream says that it is still there.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(15);

/// A line that clients pass over, but proxies do not.
pub(super) const STILL_HERE: &str = ": keepalive\n\n";
/// The end.
pub(super) const CLOSED: &str = ": stream closed\n\n";

/// A response that goes on for as long as the stream does.
pub(super) fn response(stream: impl Stream<Item = String> + Send + 'static) -> Response {
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
