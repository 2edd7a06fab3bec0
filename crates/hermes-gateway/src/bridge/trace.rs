//! The exported span of a client's call, in the trace that its `_meta` or the headers of its request name.

use hermes_config::{
    trace_context::{TRACEPARENT, TRACESTATE, TraceContext},
    traced_span,
};
use rmcp::{RoleServer, service::RequestContext};
use tracing::Span;

pub(super) fn call_span(tool: &str, context: &RequestContext<RoleServer>) -> Span {
    if !hermes_config::trace_context::is_on() {
        return Span::none();
    }
    let span = traced_span!(
        "tools/call",
        otel.name = format!("tools/call {tool}"),
        otel.kind = "server",
        mcp.method.name = "tools/call",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool
    );
    let meta = &context.meta;
    let of_meta = TraceContext::receive(meta.get_traceparent(), meta.get_tracestate());
    let of_headers = || {
        let headers = &context
            .extensions
            .get::<axum::http::request::Parts>()?
            .headers;
        let text = |name: &str| headers.get(name)?.to_str().ok();
        TraceContext::receive(text(TRACEPARENT), text(TRACESTATE))
    };
    if let Some(parent) = of_meta.or_else(of_headers) {
        parent.adopt(&span);
    }
    span
}
