//! What a turn came to, for programs.

use hermes_agent::{
    conversation::{CallReport, TurnUsage},
    model::{Selection, TokenUsage},
};
use hermes_store::SessionId;
use serde_json::{Value, json};

use crate::failure::Failure;

/// The one object of `-q --json`: what was said, or what went wrong, and what it took.
pub(super) fn answer_object(
    session: Option<&SessionId>,
    output: Result<&str, &Failure>,
    usage: Option<&TurnUsage>,
) -> Value {
    let (output, error) = match output {
        Ok(text) => (json!(text), Value::Null),
        Err(failure) => {
            let error = json!({"code": failure.kind.code(), "message": failure.message});
            (Value::Null, error)
        }
    };
    json!({
        "session_id": session.map(SessionId::as_str),
        "output": output,
        "usage": usage.map(usage_object),
        "tool_calls": usage.map_or_else(Vec::new, |usage| {
            usage.tool_calls.iter().map(call_object).collect()
        }),
        "error": error,
    })
}

/// What `--usage-file` gets.
pub(super) fn usage_report(
    session: &SessionId,
    model: Option<&Selection>,
    usage: &TurnUsage,
) -> Value {
    let by = usage.answered_by.as_ref();
    let by = by.map(|by| (&by.model, &by.provider));
    let by = by.or_else(|| model.map(|it| (&it.endpoint.model, &it.endpoint.provider)));
    let mut report = usage_object(usage);
    report["session_id"] = json!(session.as_str());
    report["model"] = json!(by.map(|(model, _)| model));
    report["provider"] = json!(by.map(|(_, provider)| provider));
    report["tool_call_count"] = json!(usage.tool_calls.len());
    report
}

fn usage_object(usage: &TurnUsage) -> Value {
    let TokenUsage {
        input_tokens,
        cache_read_tokens,
        cache_write_tokens,
        output_tokens,
        reasoning_tokens,
    } = usage.tokens;
    json!({
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_read_tokens": cache_read_tokens,
        "cache_write_tokens": cache_write_tokens,
        "reasoning_tokens": reasoning_tokens,
        "total_tokens": usage.tokens.total_tokens(),
        "api_calls": usage.model_calls,
    })
}

fn call_object(report: &CallReport) -> Value {
    json!({
        "id": report.id,
        "name": report.name,
        "arguments": report.arguments,
        "ok": !report.is_error,
        "seconds": (report.took.as_secs_f64() * 1000.0).round() / 1000.0,
    })
}
