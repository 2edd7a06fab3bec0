//! Reads an Anthropic message, streamed or whole.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    message::{Reasoning, null_is_default},
    model::{
        FinishReason, ModelEvent, Reply, Sink, Usage,
        calls::{Calls, Piece},
        http::{Progress, Trouble},
        refusal::Refusal,
    },
};

#[derive(Debug, Default)]
pub(crate) struct Reader {
    text: String,
    thoughts: String,
    /// Thinking blocks by index, as they have to be sent back.
    thought_blocks: BTreeMap<u64, Value>,
    calls: Calls,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
    model: String,
    is_done: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: WireMessage,
    },
    Message(WireMessage),
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    MessageDelta {
        delta: MessageDelta,
        #[serde(default)]
        usage: Option<WireUsage>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct WireMessage {
    #[serde(default, deserialize_with = "null_is_default")]
    model: String,
    #[serde(default)]
    content: Vec<Block>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
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
enum Delta {
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
struct WireUsage {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_write: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
}

impl Reader {
    /// Takes in one event of the stream.
    pub(crate) fn event(&mut self, data: &str, sink: Sink<'_>) -> Result<Progress, Trouble> {
        self.take(serde_json::from_str(data)?, sink)
    }

    /// Takes in a reply that came in one piece.
    pub(crate) fn whole(&mut self, body: &[u8], sink: Sink<'_>) -> Result<(), Trouble> {
        self.take(serde_json::from_slice(body)?, sink).map(|_| ())
    }

    fn take(&mut self, event: Event, sink: Sink<'_>) -> Result<Progress, Trouble> {
        match event {
            Event::MessageStart { message } => {
                self.model = message.model;
                self.count(message.usage);
            }
            Event::Message(message) => {
                self.model = message.model;
                self.count(message.usage);
                for (index, block) in (0..).zip(message.content) {
                    self.begin(index, block, sink);
                }
                self.finish = message.stop_reason.map(finish_reason);
                self.is_done = true;
            }
            Event::ContentBlockStart {
                index,
                content_block,
            } => self.begin(index, content_block, sink),
            Event::ContentBlockDelta { index, delta } => self.delta(index, delta, sink),
            Event::MessageDelta { delta, usage } => {
                if let Some(reason) = delta.stop_reason {
                    self.finish = Some(finish_reason(reason));
                }
                self.count(usage);
            }
            Event::MessageStop => self.is_done = true,
            Event::Error { error } => return Err(Trouble::Refused(Refusal::from_json(&error))),
            Event::Other => {}
        }
        Ok(if self.is_done {
            Progress::Complete
        } else {
            Progress::More
        })
    }

    fn begin(&mut self, index: u64, block: Block, sink: Sink<'_>) {
        match block {
            Block::Text { text } => self.say(text, sink),
            Block::ToolUse { id, name, input } => {
                let arguments = match &input {
                    Value::Object(input) if !input.is_empty() => {
                        serde_json::to_string(input).unwrap_or_default()
                    }
                    _ => String::new(),
                };
                let piece = Piece {
                    index: Some(index),
                    id,
                    name,
                    arguments,
                    ..Piece::default()
                };
                if let Some(name) = self.calls.add(piece) {
                    sink(ModelEvent::ToolCallStarted { name });
                }
            }
            Block::Thinking {
                thinking,
                signature,
            } => {
                let block = json!({ "type": "thinking", "thinking": "", "signature": "" });
                self.thought_blocks.insert(index, block);
                self.think(index, thinking, sink);
                self.sign(index, &signature);
            }
            Block::RedactedThinking { data } => {
                let block = json!({ "type": "redacted_thinking", "data": data });
                self.thought_blocks.insert(index, block);
            }
            Block::Other => {}
        }
    }

    fn delta(&mut self, index: u64, delta: Delta, sink: Sink<'_>) {
        match delta {
            Delta::TextDelta { text } => self.say(text, sink),
            Delta::InputJsonDelta { partial_json } => {
                self.calls.add(Piece {
                    index: Some(index),
                    arguments: partial_json,
                    ..Piece::default()
                });
            }
            Delta::ThinkingDelta { thinking } => self.think(index, thinking, sink),
            Delta::SignatureDelta { signature } => self.sign(index, &signature),
            Delta::OtherDelta => {}
        }
    }

    fn say(&mut self, text: String, sink: Sink<'_>) {
        if !text.is_empty() {
            self.text.push_str(&text);
            sink(ModelEvent::TextDelta(text));
        }
    }

    fn think(&mut self, index: u64, thought: String, sink: Sink<'_>) {
        self.append(index, "thinking", &thought);
        if !thought.is_empty() {
            self.thoughts.push_str(&thought);
            sink(ModelEvent::ReasoningDelta(thought));
        }
    }

    fn sign(&mut self, index: u64, signature: &str) {
        self.append(index, "signature", signature);
    }

    fn append(&mut self, index: u64, key: &str, more: &str) {
        let block = self.thought_blocks.get_mut(&index);
        if let Some(Value::String(text)) = block.and_then(|block| block.get_mut(key)) {
            text.push_str(more);
        }
    }

    fn count(&mut self, usage: Option<WireUsage>) {
        let Some(wire) = usage else { return };
        let usage = self.usage.get_or_insert_default();
        for (count, told) in [
            (&mut usage.input_tokens, wire.input),
            (&mut usage.cache_read_tokens, wire.cache_read),
            (&mut usage.cache_write_tokens, wire.cache_write),
            (&mut usage.output_tokens, wire.output),
        ] {
            if let Some(told) = told {
                *count = told;
            }
        }
    }

    /// The reply, if it is complete.
    pub(crate) fn finish(self) -> Option<Reply> {
        if !self.is_done {
            return None;
        }
        let finish = match self.finish.unwrap_or_default() {
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolCalls,
            finish => finish,
        };
        Some(Reply {
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

fn finish_reason(reason: String) -> FinishReason {
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
