//! The span of a request, which continues the trace that its caller is in.

use axum::extract::{MatchedPath, Request};
use hermes_config::{
    trace_context::{TRACEPARENT, TRACESTATE, TraceContext},
    traced_span,
};
use http::{HeaderMap, StatusCode};
use tracing::{Span, field::Empty};

use crate::http::middleware::RequestId;

/// The span of the request that a tool call came in: rmcp runs calls in tasks of its own.
#[derive(Clone)]
pub(crate) struct RequestSpan(pub(crate) Span);

/// The trace that the headers name. A malformed one is ignored.
pub(crate) fn parent_of(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    TraceContext::receive(text(TRACEPARENT), text(TRACESTATE))
}

/// The span of a request, if spans are exported.
pub(super) fn request_span(request: &mut Request, id: &RequestId) -> Span {
    let span = traced_span!(
        "request",
        otel.name = Empty,
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method_name(request.method()),
        http.route = Empty,
        http.response.status_code = Empty,
        "error.type" = Empty,
        hermes.request.id = &*id.0
    );
    if span.is_none() {
        return span;
    }
    let method = method_name(request.method());
    // Not the path itself: it has names that callers chose.
    match request.extensions().get::<MatchedPath>() {
        Some(route) => {
            let route = route.as_str();
            span.record("otel.name", format!("{method} {route}"));
            span.record("http.route", route);
        }
        None => {
            span.record("otel.name", method);
        }
    }
    if let Some(parent) = parent_of(request.headers()) {
        parent.adopt(&span);
    }
    request.extensions_mut().insert(RequestSpan(span.clone()));
    span
}

pub(super) fn record_status(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.record("error.type", status.as_str());
        span.record("otel.status_code", "ERROR");
    }
}

/// Callers can make up methods.
fn method_name(method: &http::Method) -> &str {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS") => known,
        _ => "_OTHER",
    }
}
