//! The exported spans of a turn, by the conventions for generative AI: names, counts and kinds of errors, never what was
//! said.

use hermes_config::traced_span;
use tracing::{Span, field::Empty};

use super::{TurnEnd, TurnError};
use crate::{
    model::{Model, ModelError, ModelProblem, ModelReply},
    tools::tool::ToolOutput,
};

pub(super) fn turn_span(model: &dyn Model, session: &str) -> Span {
    traced_span!(
        "invoke_agent",
        otel.name = "invoke_agent hermes",
        otel.status_code = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = "hermes",
        gen_ai.conversation.id = session,
        gen_ai.provider.name = model.provider(),
        gen_ai.request.model = model.name(),
        "error.type" = Empty
    )
}

pub(super) fn record_turn_end(span: &Span, end: &Result<TurnEnd, TurnError>) {
    match end {
        Ok(TurnEnd::Answered | TurnEnd::ClientCalls) => {}
        Ok(TurnEnd::OutOfCalls) => record_error(span, "out_of_calls"),
        Ok(TurnEnd::Interrupted) => record_error(span, "interrupted"),
        Ok(TurnEnd::RepetitionStopped) => record_error(span, "repetition"),
        Err(TurnError::Model(error)) => record_error(span, error_type(error)),
        Err(TurnError::Persist(_)) => record_error(span, "store_error"),
    }
}

pub(super) fn request_span(model: &dyn Model) -> Span {
    if !hermes_config::trace_context::is_on() {
        return Span::none();
    }
    traced_span!(
        "chat",
        otel.name = format!("chat {}", model.name()),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = model.provider(),
        gen_ai.request.model = model.name(),
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        "error.type" = Empty
    )
}

pub(super) fn record_reply(span: &Span, reply: &Result<ModelReply, ModelError>) {
    if span.is_none() {
        return;
    }
    match reply {
        Ok(reply) => {
            span.record("gen_ai.response.model", &*reply.model);
            span.record("gen_ai.response.finish_reasons", reply.finish.as_str());
            if let Some(usage) = reply.usage {
                span.record(
                    "gen_ai.usage.input_tokens",
                    to_attribute(usage.prompt_tokens()),
                );
                span.record(
                    "gen_ai.usage.output_tokens",
                    to_attribute(usage.output_tokens),
                );
            }
        }
        Err(error) => record_error(span, error_type(error)),
    }
}

pub(super) fn call_span(tool: &str, call: &str) -> Span {
    if !hermes_config::trace_context::is_on() {
        return Span::none();
    }
    traced_span!(
        "execute_tool",
        otel.name = format!("execute_tool {tool}"),
        otel.status_code = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
        gen_ai.tool.call.id = call,
        hermes.result.size = Empty,
        "error.type" = Empty
    )
}

pub(super) fn record_output(span: &Span, output: &ToolOutput) {
    span.record("hermes.result.size", to_attribute(output.text.len() as u64));
    if output.is_error {
        record_error(span, "tool_error");
    }
}

/// Attributes have signed numbers.
fn to_attribute(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn record_error(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}

fn error_type(error: &ModelError) -> &'static str {
    match &error.problem {
        ModelProblem::Unreachable { .. } => "unreachable",
        ModelProblem::TimedOut { .. } => "timeout",
        ModelProblem::KeyRefused { .. } => "key_refused",
        ModelProblem::NotFound { .. } => "not_found",
        ModelProblem::RateLimited { .. } => "rate_limited",
        ModelProblem::ContextOverflow { .. } => "context_overflow",
        ModelProblem::Refused { .. } => "refused",
        ModelProblem::Truncated { .. } => "truncated",
        ModelProblem::Malformed { .. } => "malformed",
        ModelProblem::InvalidRequest { .. } => "invalid_request",
    }
}
