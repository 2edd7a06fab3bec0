//! The exported span of a request to the local API, in the trace that its caller is in: a Hub, or another client.

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::Response,
};
use hermes_config::{
    trace_context::{TRACEPARENT, TRACESTATE, TraceContext},
    traced_span,
};
use tracing::{Instrument as _, Span, field::Empty};

/// Middleware for routes, where spans are exported.
pub(super) async fn trace_request(request: Request, next: Next) -> Response {
    let span = request_span(&request);
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.record("error.type", status.as_str());
        span.record("otel.status_code", "ERROR");
    }
    response
}

fn request_span(request: &Request) -> Span {
    let method = request.method().as_str();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("", |route| route.as_str());
    let span = traced_span!(
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        "error.type" = Empty
    );
    let text = |name: &str| request.headers().get(name)?.to_str().ok();
    if let Some(parent) = TraceContext::receive(text(TRACEPARENT), text(TRACESTATE)) {
        parent.adopt(&span);
    }
    span
}
