//! Reads a chat completion, streamed or whole.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    message::{Content, Reasoning, null_is_default},
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
pub(crate) struct ChatReplyReader {
    text: String,
    reasoning: Reasoning,
    calls: CallAssembler,
    finish: Option<FinishReason>,
    usage: Option<TokenUsage>,
    model: String,
    is_done: bool,
}

/// A chunk of a reply, or a whole one.
#[derive(Deserialize)]
struct ChatChunk {
    #[serde(default, deserialize_with = "null_is_default")]
    choices: Vec<ChatChoice>,
    #[serde(default)]
    usage: Option<ChatUsage>,
    #[serde(default, deserialize_with = "null_is_default")]
    model: String,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ChatChoice {
    #[serde(default)]
    delta: Option<ChatDelta>,
    /// Used instead of `delta` in a whole reply.
    #[serde(default)]
    message: Option<ChatDelta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct ChatDelta {
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning: Option<Value>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    reasoning_details: Vec<Value>,
    #[serde(default, deserialize_with = "null_is_default")]
    tool_calls: Vec<CallDelta>,
}

#[derive(Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default, deserialize_with = "null_is_default")]
    id: String,
    #[serde(default, deserialize_with = "null_is_default")]
    function: FunctionDelta,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Deserialize, Default)]
struct FunctionDelta {
    #[serde(default, deserialize_with = "null_is_default")]
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
struct ChatUsage {
    #[serde(default, deserialize_with = "null_is_default")]
    prompt_tokens: u64,
    #[serde(default, deserialize_with = "null_is_default")]
    completion_tokens: u64,
    #[serde(default, deserialize_with = "null_is_default")]
    prompt_cache_hit_tokens: u64,
    #[serde(default, deserialize_with = "null_is_default")]
    prompt_tokens_details: PromptDetails,
    #[serde(default, deserialize_with = "null_is_default")]
    completion_tokens_details: CompletionDetails,
}

#[derive(Deserialize, Default)]
struct PromptDetails {
    #[serde(default, deserialize_with = "null_is_default")]
    cached_tokens: u64,
    #[serde(default, deserialize_with = "null_is_default")]
    cache_write_tokens: u64,
}

#[derive(Deserialize, Default)]
struct CompletionDetails {
    #[serde(default, deserialize_with = "null_is_default")]
    reasoning_tokens: u64,
}

impl ChatReplyReader {
    /// Takes in one event of the stream.
    pub(crate) fn read_event(
        &mut self,
        data: &str,
        sink: ModelEventSink<'_>,
    ) -> Result<ReplyProgress, StreamError> {
        if data.trim() == "[DONE]" {
            self.is_done = true;
            return Ok(ReplyProgress::Complete);
        }
        let chunk: ChatChunk = serde_json::from_str(data)?;
        self.apply_chunk(chunk, sink)?;
        Ok(match self.finish {
            Some(_) => ReplyProgress::Finishing,
            None => ReplyProgress::More,
        })
    }

    /// Takes in a reply that came in one piece.
    pub(crate) fn read_whole(
        &mut self,
        body: &[u8],
        sink: ModelEventSink<'_>,
    ) -> Result<(), StreamError> {
        let chunk: ChatChunk = serde_json::from_slice(body)?;
        self.is_done = !chunk.choices.is_empty();
        self.apply_chunk(chunk, sink)
    }

    fn apply_chunk(
        &mut self,
        chunk: ChatChunk,
        sink: ModelEventSink<'_>,
    ) -> Result<(), StreamError> {
        if let Some(error) = &chunk.error {
            return Err(StreamError::Refused(ProviderRefusal::from_json(error)));
        }
        if !chunk.model.is_empty() {
            self.model = chunk.model;
        }
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage.into());
        }
        // Several choices are never requested.
        if let Some(choice) = chunk.choices.into_iter().next() {
            if let Some(delta) = choice.delta.or(choice.message) {
                self.apply_delta(delta, sink);
            }
            if let Some(reason) = choice.finish_reason {
                self.finish = Some(parse_finish_reason(reason));
            }
        }
        Ok(())
    }

    fn apply_delta(&mut self, delta: ChatDelta, sink: ModelEventSink<'_>) {
        let thought = delta.reasoning_content.as_deref();
        if let Some(thought) = thought {
            let content = self.reasoning.content.get_or_insert_default();
            content.push_str(thought);
        }
        let thought = thought.or(delta.reasoning.as_ref().and_then(Value::as_str));
        if let Some(thought) = thought.filter(|thought| !thought.is_empty()) {
            let text = self.reasoning.text.get_or_insert_default();
            text.push_str(thought);
            sink(ModelEvent::ReasoningDelta(thought.to_owned()));
        }
        for detail in delta.reasoning_details {
            merge_detail(&mut self.reasoning.details, detail);
        }
        let texts = [
            delta.content.map(|content| content.text().into_owned()),
            delta.refusal,
        ];
        for text in texts.into_iter().flatten().filter(|text| !text.is_empty()) {
            self.text.push_str(&text);
            sink(ModelEvent::TextDelta(text));
        }
        for call in delta.tool_calls {
            if let Some(name) = self.calls.add(call.into()) {
                sink(ModelEvent::ToolCallStarted { name });
            }
        }
    }

    /// The reply, if it is complete.
    pub(crate) fn finish(self) -> Option<ModelReply> {
        if !self.is_done && self.finish.is_none() {
            return None;
        }
        let finish = match self.finish.unwrap_or_default() {
            // Some servers report `stop` together with calls.
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolCalls,
            finish => finish,
        };
        Some(ModelReply {
            text: self.text,
            tool_calls: self.calls.finish(),
            reasoning: self.reasoning,
            finish,
            usage: self.usage,
            model: self.model,
            answered_by: None,
        })
    }
}

fn parse_finish_reason(reason: String) -> FinishReason {
    match reason.as_str() {
        "stop" | "eos" | "end_turn" => FinishReason::Stop,
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "length" | "max_tokens" => FinishReason::Length,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Other(reason),
    }
}

/// Adds a piece of a reasoning block to the block it continues.
fn merge_detail(details: &mut Vec<Value>, piece: Value) {
    let same_block = |last: &Value| {
        piece.get("index").is_some()
            && last.get("index") == piece.get("index")
            && last.get("type") == piece.get("type")
    };
    let (Some(Value::Object(last)), Value::Object(piece)) =
        (details.last_mut().filter(|last| same_block(last)), &piece)
    else {
        details.push(piece);
        return;
    };
    for (key, value) in piece {
        match (last.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(more))
                if ["text", "summary", "data"].contains(&key.as_str()) =>
            {
                text.push_str(more);
            }
            (Some(_), Value::Null) => {}
            _ => {
                last.insert(key.clone(), value.clone());
            }
        }
    }
}

impl From<CallDelta> for CallPiece {
    fn from(delta: CallDelta) -> Self {
        let mut extra = delta.extra;
        extra.remove("type");
        Self {
            index: delta.index,
            id: delta.id,
            name: delta.function.name,
            arguments: match delta.function.arguments {
                Value::Null => String::new(),
                Value::String(text) => text,
                // Invalid, but the meaning is clear.
                other => other.to_string(),
            },
            extra,
        }
    }
}

impl From<ChatUsage> for TokenUsage {
    fn from(wire: ChatUsage) -> Self {
        let cached = wire
            .prompt_tokens_details
            .cached_tokens
            .max(wire.prompt_cache_hit_tokens);
        let written = wire.prompt_tokens_details.cache_write_tokens;
        Self {
            input_tokens: wire.prompt_tokens.saturating_sub(cached + written),
            cache_read_tokens: cached,
            cache_write_tokens: written,
            output_tokens: wire.completion_tokens,
            reasoning_tokens: wire.completion_tokens_details.reasoning_tokens,
        }
    }
}

#[cfg(test)]
mod tests;
