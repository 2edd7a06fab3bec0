//! The exported span of a request to a server, and its place in the trace as the server is told it: in `_meta`, from
//! where the HTTP transport takes it for its headers.

use hermes_config::{trace_context::TraceContext, traced_span};
use rmcp::model::{ClientRequest, GetMeta as _, ServerResult};
use tracing::{Span, field::Empty};

use super::{CallError, CallRequest};
use crate::connection::session::McpSession;

pub(super) fn request_span(session: &McpSession, request: &CallRequest) -> Span {
    if !hermes_config::trace_context::is_on() {
        return Span::none();
    }
    let (method, target) = match request {
        CallRequest::Tool(params) => ("tools/call", Some(&*params.name)),
        // Addresses may have arguments in them.
        CallRequest::Resource(_) => ("resources/read", None),
        CallRequest::Prompt(params) => ("prompts/get", Some(&*params.name)),
    };
    let name = target.map_or_else(|| method.to_owned(), |target| format!("{method} {target}"));
    let span = traced_span!(
        "mcp",
        otel.name = name,
        otel.kind = "client",
        otel.status_code = Empty,
        mcp.method.name = method,
        gen_ai.tool.name = Empty,
        gen_ai.prompt.name = Empty,
        network.transport = if session.pid.is_some() { "pipe" } else { "tcp" },
        hermes.mcp.server = session.server.as_str(),
        "error.type" = Empty
    );
    match request {
        CallRequest::Tool(params) => span.record("gen_ai.tool.name", &*params.name),
        CallRequest::Prompt(params) => span.record("gen_ai.prompt.name", &*params.name),
        CallRequest::Resource(_) => &span,
    };
    span
}

/// Says in a message where it belongs in the trace.
pub(super) fn add_context(message: &mut ClientRequest) {
    if let Some(trace) = TraceContext::current() {
        let meta = message.get_meta_mut();
        meta.set_traceparent(trace.traceparent());
        if let Some(state) = trace.tracestate() {
            meta.set_tracestate(state);
        }
    }
}

pub(super) fn record_result(span: &Span, result: &Result<ServerResult, CallError>) {
    let kind = match result {
        Ok(ServerResult::CallToolResult(result)) if result.is_error == Some(true) => "tool_error",
        Ok(_) => return,
        Err(CallError::NotConnected { .. }) => "not_connected",
        Err(CallError::NeedsAuth { .. }) => "needs_login",
        Err(CallError::CircuitOpen { .. }) => "circuit_open",
        Err(CallError::TimedOut { .. }) => "timeout",
        Err(CallError::Interrupted) => "interrupted",
        Err(CallError::Refused { code, .. }) => {
            span.record("error.type", code.to_string());
            span.record("otel.status_code", "ERROR");
            return;
        }
        Err(CallError::ConnectionLost { .. }) => "connection_lost",
        Err(CallError::Withheld(_) | CallError::ToolListStale { .. }) => "withheld",
        Err(CallError::TooManyInputRounds) => "too_many_input_rounds",
        Err(CallError::UnexpectedResponse(_)) => "unexpected_response",
    };
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}
