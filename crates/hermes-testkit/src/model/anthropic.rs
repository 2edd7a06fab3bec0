//! Anthropic's messages.

use serde_json::{Value, json};

use super::script::{ScriptedReply, ScriptedUsage};

/// The events of a streamed reply, without its end.
pub(super) fn pieces(model: &str, reply: &ScriptedReply) -> Vec<String> {
    let usage = reply.usage.unwrap_or_default();
    let mut events = vec![event(&json!({
        "type": "message_start",
        "message": {
            "id": "msg_testkit", "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "usage": prompt_counts(&usage),
        },
    }))];
    events.push(event(&json!({ "type": "ping" })));
    let mut index = 0;
    if !reply.reasoning.is_empty() {
        let start = json!({ "type": "thinking", "thinking": "", "signature": "" });
        let mut deltas: Vec<Value> = reply
            .reasoning
            .iter()
            .map(|thought| json!({ "type": "thinking_delta", "thinking": thought }))
            .collect();
        deltas.push(json!({ "type": "signature_delta", "signature": "signed" }));
        events.extend(block(index, &start, deltas));
        index += 1;
    }
    if !reply.text.is_empty() {
        let start = json!({ "type": "text", "text": "" });
        let deltas = reply.text.iter();
        let deltas = deltas.map(|text| json!({ "type": "text_delta", "text": text }));
        events.extend(block(index, &start, deltas));
        index += 1;
    }
    for call in &reply.calls {
        let start = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        let deltas = call.arguments.iter();
        let deltas = deltas.map(|json| json!({ "type": "input_json_delta", "partial_json": json }));
        events.extend(block(index, &start, deltas));
        index += 1;
    }
    events
}

fn block(index: usize, start: &Value, deltas: impl IntoIterator<Item = Value>) -> Vec<String> {
    let mut events = vec![event(
        &json!({ "type": "content_block_start", "index": index, "content_block": start }),
    )];
    events.extend(deltas.into_iter().map(|delta| {
        event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }))
    }));
    events.push(event(
        &json!({ "type": "content_block_stop", "index": index }),
    ));
    events
}

/// The events that end a reply properly.
pub(super) fn end(reply: &ScriptedReply) -> Vec<String> {
    let usage = reply.usage.unwrap_or_default();
    vec![
        event(&json!({
            "type": "message_delta",
            "delta": { "stop_reason": finish(reply), "stop_sequence": null },
            "usage": { "output_tokens": usage.completion },
        })),
        event(&json!({ "type": "message_stop" })),
    ]
}

/// A reply in one piece.
pub(super) fn whole(model: &str, reply: &ScriptedReply) -> Value {
    let mut content = Vec::new();
    if !reply.text.is_empty() {
        content.push(json!({ "type": "text", "text": reply.text.concat() }));
    }
    for call in &reply.calls {
        let input: Value = serde_json::from_str(&call.arguments.concat()).unwrap_or_default();
        content
            .push(json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input }));
    }
    let usage = reply.usage.unwrap_or_default();
    let mut counts = prompt_counts(&usage);
    counts["output_tokens"] = usage.completion.into();
    json!({
        "id": "msg_testkit", "type": "message", "role": "assistant", "model": model,
        "content": content, "stop_reason": finish(reply), "usage": counts,
    })
}

pub(super) fn event(value: &Value) -> String {
    let kind = value["type"].as_str().unwrap_or_default();
    format!("event: {kind}\ndata: {value}\n\n")
}

fn finish(reply: &ScriptedReply) -> String {
    let fitting = if reply.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    };
    reply.finish.clone().unwrap_or_else(|| fitting.into())
}

fn prompt_counts(usage: &ScriptedUsage) -> Value {
    json!({
        "input_tokens": usage.prompt - usage.cached,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    })
}

/// An error's body.
pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

/// How a conversation that is too long is refused.
pub(super) fn overflow(context_length: u32) -> Value {
    let message = format!("prompt is too long: 999999 tokens > {context_length} maximum");
    error(400, &message)
}
