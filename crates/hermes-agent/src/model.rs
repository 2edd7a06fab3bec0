//! Language models: requests, replies, why there is none, and the [`Model`] trait.
//!
//! [`resolve_model`] decides which model a home uses. A model is built in layers: [`HttpModel`] makes one request to one
//! endpoint, [`RetryingModel`] retries transient failures, [`FallbackModel`] switches to the next provider.

mod api;
mod auxiliary;
mod endpoint;
mod fallback;
mod http;
mod providers;
mod resolve;
mod retry;

use std::{ops::AddAssign, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde_json::{Map, Value};

use crate::message::{AssistantMessage, Content, Message, Reasoning, ToolCall};

pub(crate) use self::http::ClientError;
pub use self::{
    auxiliary::Auxiliary,
    endpoint::{ApiKey, Endpoint, Protocol},
    fallback::FallbackModel,
    http::{HttpClients, HttpModel, ModelTimeouts},
    providers::{
        KeyState, ListError, Provider, is_provider_url, list_local_servers, list_models,
        list_providers,
    },
    resolve::{
        ExplainedValue, Explanation, ModelOverrides, NoModel, ResolveContext, ResolveError,
        Selection, SelectionOrigin, StoredModel, explain_model, resolve_model,
    },
    retry::{RetryPolicy, RetryingModel},
};
pub use crate::model::providers::detect::{LocalModel, LocalServers};

pub trait Model: Send + Sync {
    /// The name its provider knows it by.
    fn name(&self) -> &str;

    /// Such as `openai` or `ollama`.
    fn provider(&self) -> &str;

    /// The context size in tokens, request and reply together, where known.
    fn context_length(&self) -> Option<u32>;

    /// Whether it accepts images.
    fn supports_images(&self) -> bool {
        false
    }

    /// Requests the next message. `sink` receives events as they arrive; dropping the future ends the
    /// request and closes the connection.
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>>;
}

/// Receives events while the reply is read, so it must not block.
pub type ModelEventSink<'a> = &'a mut (dyn FnMut(ModelEvent) + Send);

#[derive(Debug, Clone, Copy, Default)]
pub struct ModelRequest<'a> {
    pub messages: &'a [Message],
    /// The tools that may be called. To end a conversation that has calls in it, keep the tools and set
    /// [`ToolChoice::None`]: some providers refuse calls of tools that are not described.
    pub tools: &'a [ToolDefinition],
    pub tool_choice: ToolChoice<'a>,
    pub max_tokens: Option<u32>,
    pub temperature: Option<f64>,
    pub stop: &'a [String],
    /// The provider's reasoning effort: `low`, `medium`, `high`, or `none`.
    pub reasoning_effort: Option<&'a str>,
    /// Members merged into the request's body; they override all others, and null removes a member.
    pub extra_body: Option<&'a Map<String, Value>>,
    /// Whether delivered text can be retracted.
    pub shown_text: TextDelivery,
}

/// A tool as the model sees it. Clones share its texts: every conversation has the same tools.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    pub name: String,
    pub description: Arc<str>,
    pub parameters: Arc<Value>,
}

/// Whether the model has to call a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolChoice<'a> {
    #[default]
    Auto,
    Required,
    None,
    Tool(&'a str),
}

/// Whether the caller can retract delivered text. It decides whether a truncated reply may be requested
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextDelivery {
    /// No: a request that delivered text is never retried.
    #[default]
    Final,
    /// Yes, on [`ModelEvent::TextRetracted`].
    Revocable,
}

/// An event while a model replies.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    TextDelta(String),
    ReasoningDelta(String),
    /// The model starts a call of this tool; its arguments are in the reply.
    ToolCallStarted {
        name: String,
    },
    /// All text, reasoning and calls of this reply so far are void.
    TextRetracted,
    /// The request failed and is retried after a pause. Started calls are void.
    Retrying {
        /// Counted from 1.
        retry: u32,
        /// How many there will be at most.
        of: u32,
        after: Duration,
        error: ModelError,
    },
    /// The fallback of an earlier request is still used.
    FallbackActive {
        model: String,
        provider: String,
    },
    FallbackStarted {
        model: String,
        provider: String,
        /// The error of the previous model.
        error: ModelError,
    },
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelReply {
    /// The text; empty where the model only calls tools.
    pub text: String,
    /// The calls, in order. Every one has an id.
    pub tool_calls: Vec<ToolCall>,
    /// To be stored with the message.
    pub reasoning: Reasoning,
    pub finish: FinishReason,
    /// Where the provider reported it.
    pub usage: Option<TokenUsage>,
    /// The model that replied, as the provider names it.
    pub model: String,
    /// The endpoint; none for models without a URL.
    pub answered_by: Option<AnsweredBy>,
}

/// The model that gave a reply, for accounting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredBy {
    /// The name in the request.
    pub model: String,
    pub provider: String,
    pub base_url: String,
}

impl ModelReply {
    /// The message to add to the conversation.
    pub fn into_message(self) -> Message {
        Message::Assistant(AssistantMessage {
            content: Content::Text(self.text),
            tool_calls: self.tool_calls,
            reasoning: self.reasoning,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FinishReason {
    #[default]
    Stop,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// Truncated at the token limit; the last call's arguments may be incomplete.
    Length,
    /// Truncated by the provider's content rules.
    ContentFilter,
    /// Another reason, in the provider's words.
    Other(String),
}

impl FinishReason {
    /// The value that is stored with the message.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Other(reason) => reason,
        }
    }
}

/// Tokens of one or more requests. Each token of the prompt is counted in exactly one of the first three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub cache_read_tokens: u64,
    /// Read and written to the cache.
    pub cache_write_tokens: u64,
    /// Reasoning included.
    pub output_tokens: u64,
    /// The reasoning part of the output, where reported.
    pub reasoning_tokens: u64,
}

impl TokenUsage {
    pub fn prompt_tokens(&self) -> u64 {
        self.input_tokens + self.cache_read_tokens + self.cache_write_tokens
    }

    /// Prompt and reply: the used part of the context.
    pub fn total_tokens(&self) -> u64 {
        self.prompt_tokens() + self.output_tokens
    }
}

impl AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.output_tokens += other.output_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
    }
}

/// A failed request and its provider. No text in it contains a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{provider}`: {problem}")]
pub struct ModelError {
    pub provider: String,
    pub problem: ModelProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelProblem {
    /// No connection, or it broke before the reply started.
    #[error("no connection to {host}: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("timed out after {} s without data", after.as_secs_f32())]
    TimedOut {
        after: Duration,
        /// Whether a retry makes sense. A busy local server would only get more to do.
        again: bool,
    },
    /// The key is wrong, missing, or has no permission.
    #[error("the key was refused (HTTP {status}): {message}; check {key}")]
    KeyRefused {
        /// 401 or 403.
        status: u16,
        /// Where the key is set, or could be.
        key: String,
        message: String,
    },
    /// The model or the URL does not exist.
    #[error("HTTP 404: {message}; check the model name `{model}` and the base URL")]
    NotFound { model: String, message: String },
    #[error("too many requests (HTTP 429): {message}")]
    RateLimited {
        /// Where the provider sent it.
        retry_after: Option<Duration>,
        message: String,
    },
    /// The conversation does not fit into the model's context.
    #[error("the conversation is too long for the model: {message}")]
    ContextOverflow {
        /// The size of the context in tokens, where the provider said so.
        limit: Option<u32>,
        message: String,
    },
    /// Any other error status, also in the middle of a reply.
    #[error("HTTP {status}: {message}")]
    Refused {
        /// The HTTP status, or the equivalent of an error in the stream.
        status: u16,
        /// Where the provider sent it.
        retry_after: Option<Duration>,
        message: String,
    },
    /// The reply ended before it was complete.
    #[error("the reply was cut off: {reason}")]
    Truncated { reason: String },
    /// The reply violates the protocol.
    #[error("the reply is malformed: {reason}")]
    Malformed { reason: String },
    #[error("the request cannot be made: {reason}")]
    InvalidRequest { reason: String },
}

impl ModelError {
    /// The HTTP status, where there was one.
    pub fn status(&self) -> Option<u16> {
        match &self.problem {
            ModelProblem::KeyRefused { status, .. } | ModelProblem::Refused { status, .. } => {
                Some(*status)
            }
            ModelProblem::NotFound { .. } => Some(404),
            ModelProblem::RateLimited { .. } => Some(429),
            _ => None,
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match &self.problem {
            ModelProblem::RateLimited { retry_after, .. }
            | ModelProblem::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether a retry of the same request may succeed.
    pub fn is_transient(&self) -> bool {
        match &self.problem {
            ModelProblem::Unreachable { .. }
            | ModelProblem::RateLimited { .. }
            | ModelProblem::Truncated { .. } => true,
            ModelProblem::TimedOut { again, .. } => *again,
            ModelProblem::Refused { status, .. } => *status == 408 || *status >= 500,
            _ => false,
        }
    }

    /// Whether the conversation has to be compacted before a retry.
    pub fn is_context_overflow(&self) -> bool {
        matches!(self.problem, ModelProblem::ContextOverflow { .. })
    }
}
