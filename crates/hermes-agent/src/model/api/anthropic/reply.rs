//! Reads an Anthropic message, streamed or whole.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    message::{Reasoning, null_is_default},
    model::{
        FinishReason, ModelEvent, ModelEventSink, ModelReply, TokenUsage,
        api::{
            calls::{CallAssembler, CallPiece},
            refusal::ProviderRefusal,
        },
        http::{ReplyProgress, StreamError},
    },
};

#[derive(Debug, Default)]
pub(crate) struct AnthropicReplyReader {
    text: String,
    thoughts: String,
    /// Thinking blocks by index, as they have to be sent back.
    thought_blocks: BTreeMap<u64, Value>,
    calls: CallAssembler,
    finish: Option<FinishReason>,
    usage: Option<TokenUsage>,
    model: String,
    is_done: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicEvent {
    MessageStart {
        message: AnthropicMessage,
    },
    Message(AnthropicMessage),
    ContentBlockStart {
        index: u64,
        content_block: AnthropicBlock,
    },
    ContentBlockDelta {
        index: u64,
        delta: AnthropicDelta,
    },
    MessageDelta {
        delta: MessageDelta,
        #[serde(default)]
        usage: Option<AnthropicUsage>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct AnthropicMessage {
    #[serde(default, deserialize_with = "null_is_default")]
    model: String,
    #[serde(default)]
    content: Vec<AnthropicBlock>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<AnthropicUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicBlock {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        #[serde(default)]
        id: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        input: Value,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        #[serde(default)]
        data: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    clippy::enum_variant_names,
    reason = "the names are those of the protocol"
)]
enum AnthropicDelta {
    TextDelta {
        text: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    #[serde(other)]
    OtherDelta,
}

#[derive(Deserialize)]
struct MessageDelta {
    #[serde(default)]
    stop_reason: Option<String>,
}

/// Counts so far. A later event repeats only the changed ones.
#[derive(Deserialize)]
struct AnthropicUsage {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_write: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
}

impl AnthropicReplyReader {
    /// Takes in one event of the stream.
    pub(crate) fn read_event(
        &mut self,
        data: &str,
        sink: ModelEventSink<'_>,
    ) -> Result<ReplyProgress, StreamError> {
        self.apply_event(serde_json::from_str(data)?, sink)
    }

    /// Takes in a reply that came in one piece.
    pub(crate) fn read_whole(
        &mut self,
        body: &[u8],
        sink: ModelEventSink<'_>,
    ) -> Result<(), StreamError> {
        self.apply_event(serde_json::from_slice(body)?, sink)
            .map(|_| ())
    }

    fn apply_event(
        &mut self,
        event: AnthropicEvent,
        sink: ModelEventSink<'_>,
    ) -> Result<ReplyProgress, StreamError> {
        match event {
            AnthropicEvent::MessageStart { message } => {
                self.model = message.model;
                self.update_usage(message.usage);
            }
            AnthropicEvent::Message(message) => {
                self.model = message.model;
                self.update_usage(message.usage);
                for (index, block) in (0..).zip(message.content) {
                    self.begin_block(index, block, sink);
                }
                self.finish = message.stop_reason.map(parse_finish_reason);
                self.is_done = true;
            }
            AnthropicEvent::ContentBlockStart {
                index,
                content_block,
            } => self.begin_block(index, content_block, sink),
            AnthropicEvent::ContentBlockDelta { index, delta } => {
                self.apply_delta(index, delta, sink);
            }
            AnthropicEvent::MessageDelta { delta, usage } => {
                if let Some(reason) = delta.stop_reason {
                    self.finish = Some(parse_finish_reason(reason));
                }
                self.update_usage(usage);
            }
            AnthropicEvent::MessageStop => self.is_done = true,
            AnthropicEvent::Error { error } => {
                return Err(StreamError::Refused(ProviderRefusal::from_json(&error)));
            }
            AnthropicEvent::Other => {}
        }
        Ok(if self.is_done {
            ReplyProgress::Complete
        } else {
            ReplyProgress::More
        })
    }

    fn begin_block(&mut self, index: u64, block: AnthropicBlock, sink: ModelEventSink<'_>) {
        match block {
            AnthropicBlock::Text { text } => self.append_text(text, sink),
            AnthropicBlock::ToolUse { id, name, input } => {
                let arguments = match &input {
                    Value::Object(input) if !input.is_empty() => {
                        serde_json::to_string(input).unwrap_or_default()
                    }
                    _ => String::new(),
                };
                let piece = CallPiece {
                    index: Some(index),
                    id,
                    name,
                    arguments,
                    ..CallPiece::default()
                };
                if let Some(name) = self.calls.add(piece) {
                    sink(ModelEvent::ToolCallStarted { name });
                }
            }
            AnthropicBlock::Thinking {
                thinking,
                signature,
            } => {
                let block = json!({ "type": "thinking", "thinking": "", "signature": "" });
                self.thought_blocks.insert(index, block);
                self.append_thinking(index, thinking, sink);
                self.append_signature(index, &signature);
            }
            AnthropicBlock::RedactedThinking { data } => {
                let block = json!({ "type": "redacted_thinking", "data": data });
                self.thought_blocks.insert(index, block);
            }
            AnthropicBlock::Other => {}
        }
    }

    fn apply_delta(&mut self, index: u64, delta: AnthropicDelta, sink: ModelEventSink<'_>) {
        match delta {
            AnthropicDelta::TextDelta { text } => self.append_text(text, sink),
            AnthropicDelta::InputJsonDelta { partial_json } => {
                self.calls.add(CallPiece {
                    index: Some(index),
                    arguments: partial_json,
                    ..CallPiece::default()
                });
            }
            AnthropicDelta::ThinkingDelta { thinking } => {
                self.append_thinking(index, thinking, sink);
            }
            AnthropicDelta::SignatureDelta { signature } => {
                self.append_signature(index, &signature);
            }
            AnthropicDelta::OtherDelta => {}
        }
    }

    fn append_text(&mut self, text: String, sink: ModelEventSink<'_>) {
        if !text.is_empty() {
            self.text.push_str(&text);
            sink(ModelEvent::TextDelta(text));
        }
    }

    fn append_thinking(&mut self, index: u64, thought: String, sink: ModelEventSink<'_>) {
        self.append_to_block(index, "thinking", &thought);
        if !thought.is_empty() {
            self.thoughts.push_str(&thought);
            sink(ModelEvent::ReasoningDelta(thought));
        }
    }

    fn append_signature(&mut self, index: u64, signature: &str) {
        self.append_to_block(index, "signature", signature);
    }

    fn append_to_block(&mut self, index: u64, key: &str, more: &str) {
        let block = self.thought_blocks.get_mut(&index);
        if let Some(Value::String(text)) = block.and_then(|block| block.get_mut(key)) {
            text.push_str(more);
        }
    }

    fn update_usage(&mut self, usage: Option<AnthropicUsage>) {
        let Some(wire) = usage else { return };
        let usage = self.usage.get_or_insert_default();
        for (count, reported) in [
            (&mut usage.input_tokens, wire.input),
            (&mut usage.cache_read_tokens, wire.cache_read),
            (&mut usage.cache_write_tokens, wire.cache_write),
            (&mut usage.output_tokens, wire.output),
        ] {
            if let Some(reported) = reported {
                *count = reported;
            }
        }
    }

    /// The reply, if it is complete.
    pub(crate) fn finish(self) -> Option<ModelReply> {
        if !self.is_done {
            return None;
        }
        let finish = match self.finish.unwrap_or_default() {
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolCalls,
            finish => finish,
        };
        Some(ModelReply {
            text: self.text,
            tool_calls: self.calls.finish(),
            reasoning: Reasoning {
                text: Some(self.thoughts).filter(|text| !text.is_empty()),
                content: None,
                details: self.thought_blocks.into_values().collect(),
            },
            finish,
            usage: self.usage,
            model: self.model,
            answered_by: None,
        })
    }
}

fn parse_finish_reason(reason: String) -> FinishReason {
    match reason.as_str() {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Other(reason),
    }
}

#[cfg(test)]
mod tests;
