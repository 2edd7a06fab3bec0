//! Converts between a server's sampling request and the agent's messages.

use std::collections::HashMap;

use hermes_mcp::{
    protocol::{
        ContentBlock, CreateMessageRequestParams, CreateMessageResult, Role, SamplingContent,
        SamplingMessage, SamplingMessageContentBlock as Block, ToolChoiceMode, ToolResultContent,
    },
    tools::schema,
};
use serde_json::{Map, Value, json};

use crate::{
    message::{AssistantMessage, Content, Message, Part, ToolCall, ToolResult},
    model::{FinishReason, ModelReply, ToolChoice, ToolDefinition},
};

pub(super) fn to_messages(request: &CreateMessageRequestParams) -> Vec<Message> {
    let mut messages = Vec::new();
    // A result refers to its call only by id.
    let mut names: HashMap<String, String> = HashMap::new();
    if let Some(prompt) = request
        .system_prompt
        .as_ref()
        .filter(|prompt| !prompt.is_empty())
    {
        messages.push(Message::system(prompt.clone()));
    }
    for message in &request.messages {
        let blocks = message.content.clone().into_vec();
        let mut rest = Vec::new();
        for block in blocks {
            match block {
                Block::ToolResult(result) => messages.push(tool_result(result, &names)),
                other => {
                    if let Block::ToolUse(call) = &other {
                        names.insert(call.id.clone(), call.name.clone());
                    }
                    rest.push(other);
                }
            }
        }
        if rest.is_empty() {
            continue;
        }
        messages.push(match message.role {
            Role::Assistant => assistant(rest),
            Role::User => Message::user(to_content(rest)),
        });
    }
    messages
}

fn tool_result(result: ToolResultContent, names: &HashMap<String, String>) -> Message {
    let texts: Vec<String> = result.content.iter().map(text_of).collect();
    let text = match (&result.structured_content, texts.is_empty()) {
        (Some(structured), true) => structured.to_string(),
        _ => texts.join("\n"),
    };
    Message::Tool(ToolResult {
        name: names.get(&result.tool_use_id).cloned(),
        tool_call_id: result.tool_use_id,
        content: Content::Text(text),
    })
}

fn assistant(blocks: Vec<Block>) -> Message {
    let mut calls = Vec::new();
    let mut others = Vec::new();
    for block in blocks {
        match block {
            Block::ToolUse(call) => {
                calls.push(ToolCall::new(
                    call.id,
                    call.name,
                    Value::Object(call.input).to_string(),
                ));
            }
            other => others.push(other),
        }
    }
    Message::Assistant(AssistantMessage {
        content: to_content(others),
        tool_calls: calls,
        ..AssistantMessage::default()
    })
}

/// A single text becomes a plain string; anything else becomes parts.
fn to_content(blocks: Vec<Block>) -> Content {
    if let [Block::Text(text)] = blocks.as_slice() {
        return Content::Text(text.text.clone());
    }
    let part = |block: Block| match block {
        Block::Text(block) => Part::from_text(block.text),
        Block::Image(image) => {
            Part::from_image_url(format!("data:{};base64,{}", image.mime_type, image.data))
        }
        Block::Audio(audio) => {
            Part::from_text(format!("[audio of type {} left out]", audio.mime_type))
        }
        _ => Part::from_text("[content of an unknown kind left out]"),
    };
    if blocks.is_empty() {
        return Content::default();
    }
    Content::Parts(blocks.into_iter().map(part).collect())
}

fn text_of(block: &ContentBlock) -> String {
    if let ContentBlock::Text(text) = block {
        return text.text.clone();
    }
    let block = serde_json::to_value(block).unwrap_or_default();
    let kind = block["type"]
        .as_str()
        .unwrap_or("content of an unknown kind");
    format!("[{kind} left out]")
}

/// The tools that a server offers to the model.
pub(super) fn to_tool_definitions(request: &CreateMessageRequestParams) -> Vec<ToolDefinition> {
    let tools = request.tools.iter().flatten();
    tools
        .map(|tool| ToolDefinition {
            name: tool.name.clone().into_owned(),
            description: tool.description.as_deref().unwrap_or_default().into(),
            parameters: schema::normalise(&Value::Object((*tool.input_schema).clone())).into(),
        })
        .collect()
}

/// Whether the model has to call one of them.
pub(super) fn tool_choice(request: &CreateMessageRequestParams) -> ToolChoice<'static> {
    match request
        .tool_choice
        .as_ref()
        .and_then(|choice| choice.mode.as_ref())
    {
        Some(ToolChoiceMode::Required) => ToolChoice::Required,
        Some(ToolChoiceMode::None) => ToolChoice::None,
        _ => ToolChoice::Auto,
    }
}

/// The result for the server; `None` for an empty reply.
pub(super) fn to_sampling_result(
    reply: ModelReply,
    redact: impl Fn(&str) -> String,
) -> Option<CreateMessageResult> {
    let mut blocks = Vec::new();
    if !reply.text.trim().is_empty() {
        blocks.push(Block::text(redact(&reply.text)));
    }
    let uses_tools = !reply.tool_calls.is_empty();
    for call in reply.tool_calls {
        let input = call
            .parse_arguments()
            .unwrap_or_else(|_| Map::from_iter([("_raw".to_owned(), json!(call.arguments))]));
        blocks.push(Block::tool_use(call.id, call.name, input));
    }
    let content = match blocks.len() {
        0 => return None,
        1 => SamplingContent::Single(blocks.remove(0)),
        _ => SamplingContent::Multiple(blocks),
    };
    let message: SamplingMessage =
        serde_json::from_value(json!({"role": "assistant", "content": content})).ok()?;
    let mut result = CreateMessageResult::new(message, reply.model);
    let reason = match reply.finish {
        _ if uses_tools => "toolUse",
        FinishReason::Length => "maxTokens",
        _ => "endTurn",
    };
    result.stop_reason = Some(reason.to_owned());
    Some(result)
}
