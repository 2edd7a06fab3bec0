//! Anthropic's messages: the body of a request. Reading the reply is the work of [`reply`].
//!
//! System text is a separate member, tool results are part of the user's turn, and roles must alternate.

pub(crate) mod reply;
mod thinking;

use serde_json::{Map, Value, json};

use super::chat::turn_start;
use crate::{
    message::{AssistantMessage, Content, Image, KnownPart, Message, Part, ToolCall},
    model::{Endpoint, ModelRequest, ToolChoice, ToolDefinition},
};

/// Precedes a conversation whose beginning is gone, since the first turn has to be the user's.
const TRUNCATED_START: &str = "(The beginning of the conversation was left out.)";

pub(crate) fn request_body(
    endpoint: &Endpoint,
    request: &ModelRequest<'_>,
) -> Result<Vec<u8>, serde_json::Error> {
    let max_tokens = request
        .max_tokens
        .unwrap_or_else(|| thinking::default_max_tokens(&endpoint.model));
    let mut body = Map::new();
    body.insert("model".into(), endpoint.model.as_str().into());
    body.insert("max_tokens".into(), max_tokens.into());
    body.insert("stream".into(), true.into());
    let mut system = system_blocks(request.messages);
    let mut tools = tool_definitions(request);
    // The stable prefix is worth caching: tools, then the system text, then the turns.
    if let Some(last) = system.last_mut().or(tools.last_mut()) {
        mark_cacheable(last);
    }
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
        body.insert("tool_choice".into(), tool_choice(request));
    }
    body.insert(
        "messages".into(),
        alternating_turns(request.messages, endpoint.supports_images).into(),
    );
    if !request.stop.is_empty() {
        body.insert("stop_sequences".into(), request.stop.into());
    }
    let thinking = thinking::thinking_members(&endpoint.model, request, max_tokens);
    if thinking.is_empty() {
        // A model with reasoning enabled rejects it.
        body.extend(
            request
                .temperature
                .map(|temperature| ("temperature".to_owned(), temperature.into())),
        );
    }
    body.extend(thinking);
    crate::model::http::merge_extra_body(&body, endpoint, request)
}

/// Marks the end of a prefix that the next request will share.
fn mark_cacheable(block: &mut Value) {
    if let Some(block) = block.as_object_mut() {
        block.insert("cache_control".into(), json!({ "type": "ephemeral" }));
    }
}

fn system_blocks(messages: &[Message]) -> Vec<Value> {
    messages
        .iter()
        .filter_map(|message| match message {
            Message::System { content } => Some(content.text()),
            _ => None,
        })
        .filter(|text| !text.trim().is_empty())
        .map(|text| text_block(&text))
        .collect()
}

fn tool_definitions(request: &ModelRequest<'_>) -> Vec<Value> {
    if !request.tools.is_empty() {
        return request.tools.iter().map(tool_definition).collect();
    }
    // Calls in the history are rejected unless their tools are described.
    let mut names: Vec<&str> = request
        .messages
        .iter()
        .flat_map(Message::tool_calls)
        .map(|call| call.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|name| json!({ "name": name, "input_schema": { "type": "object" } }))
        .collect()
}

fn tool_definition(tool: &ToolDefinition) -> Value {
    let schema = match &*tool.parameters {
        Value::Object(schema) if schema.get("type").is_some_and(|kind| kind == "object") => {
            Value::clone(&tool.parameters)
        }
        _ => json!({ "type": "object" }),
    };
    json!({ "name": tool.name, "description": &*tool.description, "input_schema": schema })
}

fn tool_choice(request: &ModelRequest<'_>) -> Value {
    match request.tool_choice {
        _ if request.tools.is_empty() => json!({ "type": "none" }),
        ToolChoice::Auto => json!({ "type": "auto" }),
        ToolChoice::Required => json!({ "type": "any" }),
        ToolChoice::None => json!({ "type": "none" }),
        ToolChoice::Tool(name) => json!({ "type": "tool", "name": name }),
    }
}

/// The conversation as alternating turns. The ends of the last two user turns are cached: the earlier one was
/// the end of the request before this one.
fn alternating_turns(messages: &[Message], sees_images: bool) -> Vec<Value> {
    let turn_start = turn_start(messages);
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let (role, blocks) = match message {
            Message::System { .. } => continue,
            Message::User { content } => ("user", content_blocks(content)),
            Message::Tool(result) => (
                "user",
                vec![json!({
                    "type": "tool_result",
                    "tool_use_id": result.tool_call_id,
                    "content": if sees_images {
                        content_blocks(&result.content)
                    } else {
                        content_blocks(&Content::Text(result.content.text().into_owned()))
                    },
                })],
            ),
            Message::Assistant(message) => {
                ("assistant", assistant_blocks(message, index >= turn_start))
            }
        };
        if blocks.is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some((last, known)) if *last == role => known.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    if turns.first().is_some_and(|(role, _)| *role != "user") {
        turns.insert(0, ("user", vec![text_block(TRUNCATED_START)]));
    }
    turns
        .iter_mut()
        .rev()
        .filter(|(role, _)| *role == "user")
        .take(2)
        .filter_map(|(_, blocks)| blocks.last_mut())
        .for_each(mark_cacheable);
    turns
        .into_iter()
        .map(|(role, content)| json!({ "role": role, "content": content }))
        .collect()
}

fn assistant_blocks(message: &AssistantMessage, is_in_turn: bool) -> Vec<Value> {
    let is_thought = |detail: &&Value| {
        detail["type"] == "redacted_thinking"
            || (detail["type"] == "thinking" && detail["signature"].is_string())
    };
    let mut blocks = Vec::new();
    if is_in_turn {
        blocks.extend(message.reasoning.details.iter().filter(is_thought).cloned());
    }
    blocks.extend(content_blocks(&message.content));
    blocks.extend(message.tool_calls.iter().map(tool_use));
    blocks
}

fn tool_use(call: &ToolCall) -> Value {
    let input: Value = serde_json::from_str(&call.valid_json_arguments()).unwrap_or_default();
    json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
}

fn content_blocks(content: &Content) -> Vec<Value> {
    match content {
        // Empty text is refused.
        Content::Text(text) if text.trim().is_empty() => Vec::new(),
        Content::Text(text) => vec![text_block(text)],
        Content::Parts(parts) => parts.iter().filter_map(part_block).collect(),
    }
}

fn part_block(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Known(KnownPart::Text { text }) if text.trim().is_empty() => return None,
        Part::Known(KnownPart::Text { text }) => text_block(text),
        Part::Known(KnownPart::ImageUrl { image_url }) => {
            json!({ "type": "image", "source": image_source(image_url) })
        }
        Part::Other(_) => text_block("[content that cannot be shown here was omitted]"),
    })
}

fn image_source(image: &Image) -> Value {
    match image.data_url_parts() {
        Some((media_type, data)) => {
            json!({ "type": "base64", "media_type": media_type, "data": data })
        }
        None => json!({ "type": "url", "url": image.url }),
    }
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

#[cfg(test)]
mod tests;
