//! Converts the items of `input` to messages.

use serde_json::{Value, json};

use crate::api::error::ApiError;

/// The messages of an input: a text is a user message, a list is the conversation.
pub(super) fn to_messages(input: &Value) -> Result<Value, ApiError> {
    let items = match input {
        Value::Array(items) => items,
        other => return Ok(other.clone()),
    };
    let mut messages: Vec<Value> = Vec::new();
    for item in items {
        match item["type"].as_str() {
            None | Some("message") => messages.push(to_message(item)?),
            Some("function_call") => add_call(&mut messages, item),
            Some("function_call_output") => messages.push(json!({
                "role": "tool",
                "tool_call_id": item["call_id"],
                "content": to_result_text(&item["output"])?,
            })),
            // Reasoning of other models is ignored.
            Some("reasoning" | "item_reference") => {}
            Some(kind) => {
                let message = format!("`input`: items of the type `{kind}` are not supported");
                return Err(ApiError::invalid_member("input", message));
            }
        }
    }
    Ok(Value::Array(messages))
}

fn to_message(item: &Value) -> Result<Value, ApiError> {
    Ok(json!({"role": item["role"], "content": to_content(&item["content"])?}))
}

/// Consecutive calls become one message.
fn add_call(messages: &mut Vec<Value>, item: &Value) {
    let call = json!({
        "id": item["call_id"],
        "type": "function",
        "function": {"name": item["name"], "arguments": item["arguments"]},
    });
    if let Some(last) = messages.last_mut()
        && last["role"] == "assistant"
    {
        match last["tool_calls"].as_array_mut() {
            Some(calls) => calls.push(call),
            None => last["tool_calls"] = json!([call]),
        }
        return;
    }
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
}

/// The result of a function: a text, or the text parts.
fn to_result_text(output: &Value) -> Result<Value, ApiError> {
    match to_content(output)? {
        Value::Array(parts) => {
            let texts: Vec<&str> = parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect();
            Ok(texts.join("\n").into())
        }
        text => Ok(text),
    }
}

/// A text, or parts in the format of chat completions.
fn to_content(content: &Value) -> Result<Value, ApiError> {
    let parts = match content {
        Value::Array(parts) => parts,
        other => return Ok(other.clone()),
    };
    let parts: Result<Vec<Value>, ApiError> = parts
        .iter()
        .map(|part| match part["type"].as_str() {
            Some("input_text" | "output_text" | "text") => {
                Ok(json!({"type": "text", "text": part["text"]}))
            }
            Some("input_image") if part["image_url"].is_string() => Ok(json!({
                "type": "image_url",
                "image_url": {"url": part["image_url"], "detail": part["detail"].as_str()},
            })),
            kind => {
                let kind = kind.unwrap_or("no type");
                let message = format!(
                    "`input`: parts of the type `{kind}` are not supported; texts and images by URL are"
                );
                Err(ApiError::invalid_member("input", message))
            }
        })
        .collect();
    Ok(Value::Array(parts?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_follow_each_other_become_one_message_and_thoughts_are_passed_over() {
        let input = json!([
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "1"},
            {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "2"}]},
        ]);
        assert_eq!(
            to_messages(&input).unwrap(),
            json!([
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "1"},
                {"role": "tool", "tool_call_id": "b", "content": "2"},
            ])
        );
        assert_eq!(to_messages(&json!("hi")).unwrap(), json!("hi"));
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for input in [
            json!([{"type": "computer_call"}]),
            json!([{"role": "user", "content": [{"type": "input_file"}]}]),
        ] {
            assert!(to_messages(&input).is_err(), "{input}");
        }
    }
}
