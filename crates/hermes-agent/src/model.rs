//! Language models: what is asked of them, what they answer, and the one trait they all have.
//!
//! [`resolve`] decides which model a home uses. A model is built in layers: [`HttpModel`] makes one attempt at one
//! endpoint, [`Retrying`] tries again where that helps, [`Fallback`] goes on to the next provider.

mod address;
mod anthropic;
mod auxiliary;
mod calls;
mod chat;
mod detect;
mod endpoint;
mod error;
mod fallback;
mod http;
mod provider_table;
mod providers;
mod refusal;
mod resolve;
mod retry;
mod sight;

use std::{ops::AddAssign, time::Duration};

use futures::future::BoxFuture;
use serde_json::{Map, Value};

use crate::message::{AssistantMessage, Content, Message, Reasoning, ToolCall};

pub use self::{
    auxiliary::Auxiliary,
    detect::{LocalModel, LocalServers},
    endpoint::{Endpoint, Key, Protocol},
    error::{ModelError, Problem},
    fallback::Fallback,
    http::{HttpClients, HttpModel, Patience},
    providers::{KeyState, ListError, Provider, is_address, list_models, local_servers, providers},
    resolve::{
        Explained, Explanation, NoModel, Origin, ResolveError, Selection, StoredModel,
        Surroundings, Wanted, explain, resolve,
    },
    retry::{RetryPolicy, Retrying},
};

/// Something that continues a conversation.
pub trait Model: Send + Sync {
    /// The name its provider knows it by.
    fn name(&self) -> &str;

    /// Whom it is asked from, such as `openai` or `ollama`.
    fn provider(&self) -> &str;

    /// How many tokens fit into one request with its reply, where that is known.
    fn context_length(&self) -> Option<u32>;

    /// Whether images are worth sending to it.
    fn sees_images(&self) -> bool {
        false
    }

    /// Asks for the next message. `sink` is told of everything the moment it arrives; dropping the future ends the
    /// request and closes the connection.
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Reply, ModelError>>;
}

/// Who is told what arrives. It runs inside the reading of the reply, so it must not block.
pub type Sink<'a> = &'a mut (dyn FnMut(ModelEvent) + Send);

/// What is asked of a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelRequest<'a> {
    /// The conversation so far.
    pub messages: &'a [Message],
    /// What the model may call. To end a conversation that has calls in it, leave the tools and set
    /// [`ToolChoice::None`]: some providers refuse calls of tools that are not described.
    pub tools: &'a [ToolDefinition],
    /// Whether it should.
    pub tool_choice: ToolChoice<'a>,
    /// Most tokens of the reply.
    pub max_tokens: Option<u32>,
    /// How freely it chooses its words.
    pub temperature: Option<f64>,
    /// Texts at which it stops.
    pub stop: &'a [String],
    /// How long it should think, in the provider's words: `low`, `medium`, `high`; `none` for not at all.
    pub reasoning_effort: Option<&'a str>,
    /// Members put into the request's body; they win over all others, and null takes a member out.
    pub extra_body: Option<&'a Map<String, Value>>,
    /// What may become of text that was already handed over.
    pub shown_text: ShownText,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// Its registered name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// Whether the model has to call a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolChoice<'a> {
    /// As it likes.
    #[default]
    Auto,
    /// At least one.
    Required,
    /// It must not.
    None,
    /// This one.
    Tool(&'a str),
}

/// Whether the caller can take back text it was handed. It decides whether a reply that breaks off may be asked for
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShownText {
    /// No: a call that delivered text is never repeated.
    #[default]
    Final,
    /// Yes, on [`ModelEvent::TextTakenBack`].
    Revocable,
}

/// Something that happened while a model answers.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More of the answer.
    TextDelta(String),
    /// More of the thoughts before it.
    ReasoningDelta(String),
    /// The model begins to write a call of this tool; its arguments are in the reply.
    ToolCallStarted {
        /// The tool.
        name: String,
    },
    /// All text, thoughts and calls of this reply so far are void.
    TextTakenBack,
    /// The request failed and is made again after a pause. Calls that were begun are void.
    Retrying {
        /// Which retry this is, counted from 1.
        retry: u32,
        /// How many there will be at most.
        of: u32,
        /// The pause.
        after: Duration,
        /// What went wrong.
        error: ModelError,
    },
    /// The model that stepped in earlier is asked in the place of the first.
    StandsIn {
        /// Its name.
        model: String,
        /// Its provider.
        provider: String,
    },
    /// Another model is asked instead.
    FellBack {
        /// Its name.
        model: String,
        /// Its provider.
        provider: String,
        /// What went wrong with the one before.
        error: ModelError,
    },
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// The text; empty where the model only calls tools.
    pub text: String,
    /// The calls, in order. Every one has an id.
    pub tool_calls: Vec<ToolCall>,
    /// The thoughts, to be stored with the message.
    pub reasoning: Reasoning,
    /// Why it ended.
    pub finish: FinishReason,
    /// What it cost, where the provider said so.
    pub usage: Option<Usage>,
    /// The model that answered, as the provider calls it.
    pub model: String,
    /// Who was asked for it; not told by models that have no address.
    pub answered_by: Option<AnsweredBy>,
}

/// Who gave an answer, and is paid for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredBy {
    /// The model, by the name it was asked by.
    pub model: String,
    /// Its provider.
    pub provider: String,
    /// Where it was asked.
    pub base_url: String,
}

impl Reply {
    /// The message to add to the conversation.
    pub fn into_message(self) -> Message {
        Message::Assistant(AssistantMessage {
            content: Content::Text(self.text),
            tool_calls: self.tool_calls,
            reasoning: self.reasoning,
        })
    }
}

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FinishReason {
    /// It is complete.
    #[default]
    Stop,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The token limit cut it off; the last call's arguments may be incomplete.
    Length,
    /// The provider's rules cut it off.
    ContentFilter,
    /// Another reason, in the provider's words.
    Other(String),
}

impl FinishReason {
    /// The word that is stored with the message.
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
pub struct Usage {
    /// Read anew.
    pub input_tokens: u64,
    /// Read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Read anew and put into the cache.
    pub cache_write_tokens: u64,
    /// Written, thoughts included.
    pub output_tokens: u64,
    /// Those of them that were thoughts, where that was told.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// The whole prompt.
    pub fn prompt_tokens(&self) -> u64 {
        self.input_tokens + self.cache_read_tokens + self.cache_write_tokens
    }

    /// Prompt and reply: how full the context is.
    pub fn total_tokens(&self) -> u64 {
        self.prompt_tokens() + self.output_tokens
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.output_tokens += other.output_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
    }
}
