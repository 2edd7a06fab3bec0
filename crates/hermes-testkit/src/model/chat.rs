//! OpenAI's chat completions.

use serde_json::{Value, json};

use super::script::{ScriptedCall, ScriptedReply, ScriptedUsage};

const ID: &str = "chatcmpl-testkit";

/// The events of a streamed reply, without its end.
pub(super) fn pieces(model: &str, reply: &ScriptedReply) -> Vec<String> {
    let chunk = |delta: Value| event(&chunk(model, &delta, None));
    let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }))];
    for thought in &reply.reasoning {
        events.push(chunk(json!({ "reasoning_content": thought })));
    }
    for text in &reply.text {
        events.push(chunk(json!({ "content": text })));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let name = (!call.name_last).then_some(&call.name);
        events.push(chunk(json!({ "tool_calls": [{
            "index": index, "id": call.id, "type": "function",
            "function": { "name": name, "arguments": "" },
        }] })));
    }
    let rounds = reply.calls.iter().map(|call| call.arguments.len()).max();
    for round in 0..rounds.unwrap_or_default() {
        for (index, call) in reply.calls.iter().enumerate() {
            if let Some(arguments) = call.arguments.get(round) {
                let is_last = round + 1 == call.arguments.len();
                let name = (call.name_last && is_last).then_some(&call.name);
                events.push(chunk(json!({ "tool_calls": [{
                    "index": index,
                    "function": { "name": name, "arguments": arguments },
                }] })));
            }
        }
    }
    events
}

/// The events that end a reply properly.
pub(super) fn end(model: &str, reply: &ScriptedReply) -> Vec<String> {
    let mut events = vec![event(&chunk(model, &json!({}), Some(&finish(reply))))];
    if let Some(usage) = &reply.usage {
        let mut last = chunk(model, &json!({}), None);
        last["choices"] = json!([]);
        last["usage"] = counts(usage);
        events.push(event(&last));
    }
    events.push("data: [DONE]\n\n".into());
    events
}

/// A reply in one piece.
pub(super) fn whole(model: &str, reply: &ScriptedReply) -> Value {
    let calls: Vec<Value> = reply.calls.iter().map(whole_call).collect();
    json!({
        "id": ID, "object": "chat.completion", "model": model,
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": reply.text.concat(), "tool_calls": calls },
            "finish_reason": finish(reply),
        }],
        "usage": reply.usage.as_ref().map(counts),
    })
}

fn whole_call(call: &ScriptedCall) -> Value {
    json!({
        "id": call.id, "type": "function",
        "function": { "name": call.name, "arguments": call.arguments.concat() },
    })
}

pub(super) fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn chunk(model: &str, delta: &Value, finish: Option<&str>) -> Value {
    json!({
        "id": ID, "object": "chat.completion.chunk", "model": model,
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
    })
}

fn finish(reply: &ScriptedReply) -> String {
    let fitting = if reply.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    reply.finish.clone().unwrap_or_else(|| fitting.into())
}

fn counts(usage: &ScriptedUsage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
    })
}

/// An error's body.
pub(super) fn error(message: &str, code: Option<&str>) -> Value {
    json!({ "error": { "message": message, "type": "invalid_request_error", "code": code } })
}

/// How a conversation that is too long is refused.
pub(super) fn overflow(context_length: u32) -> Value {
    error(
        &format!(
            "This model's maximum context length is {context_length} tokens. However, your messages resulted in more."
        ),
        Some("context_length_exceeded"),
    )
}
