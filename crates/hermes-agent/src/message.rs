//! The messages of a conversation, in the format of stored sessions and of most providers.
//!
//! Parsing is tolerant: unknown members are ignored, unknown content parts are kept unchanged.

use std::borrow::Cow;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hermes_config::detect_image_type;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// The system prompt.
    #[serde(alias = "developer")]
    System {
        content: Content,
    },
    User {
        /// Text, perhaps with images.
        content: Content,
    },
    Assistant(AssistantMessage),
    Tool(ToolResult),
}

impl Message {
    pub fn system(text: impl Into<String>) -> Self {
        Self::System {
            content: Content::Text(text.into()),
        }
    }

    pub fn user(content: impl Into<Content>) -> Self {
        Self::User {
            content: content.into(),
        }
    }

    /// An answer that is only text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant(AssistantMessage {
            content: Content::Text(text.into()),
            ..AssistantMessage::default()
        })
    }

    pub fn tool(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self::Tool(ToolResult {
            tool_call_id: call.id.clone(),
            name: Some(call.name.clone()),
            content: content.into(),
        })
    }

    /// The content besides tool calls.
    pub fn content(&self) -> &Content {
        match self {
            Self::System { content } | Self::User { content } => content,
            Self::Assistant(message) => &message.content,
            Self::Tool(result) => &result.content,
        }
    }

    /// The memory that it takes, nearly.
    pub(crate) fn memory_bytes(&self) -> usize {
        let calls = self.tool_calls().iter();
        let calls =
            calls.map(|call| size_of::<ToolCall>() + call.name.len() + call.arguments.len());
        let reasoning = match self {
            Self::Assistant(message) => message.reasoning.memory_bytes(),
            _ => 0,
        };
        size_of::<Self>() + self.content().memory_bytes() + calls.sum::<usize>() + reasoning
    }

    /// The calls of an assistant's message; none for every other.
    pub fn tool_calls(&self) -> &[ToolCall] {
        match self {
            Self::Assistant(message) => &message.tool_calls,
            _ => &[],
        }
    }
}

/// An answer of the model: text, calls, or both.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The text; empty where it only calls tools.
    #[serde(default, deserialize_with = "null_is_default")]
    pub content: Content,
    /// The calls, in order.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tool_calls: Vec<ToolCall>,
    #[serde(flatten)]
    pub reasoning: Reasoning,
}

/// A model's reasoning. Some of it is opaque to all but the provider that sent it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reasoning {
    /// As text, for people.
    #[serde(rename = "reasoning", default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Text that some providers require back while tools are being called.
    #[serde(
        rename = "reasoning_content",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub content: Option<String>,
    /// Signed or encrypted blocks that other providers require back unchanged.
    #[serde(
        rename = "reasoning_details",
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub details: Vec<Value>,
}

impl Reasoning {
    fn memory_bytes(&self) -> usize {
        let texts = [&self.text, &self.content].into_iter().flatten();
        let details = self.details.iter().map(|detail| detail.to_string().len());
        texts.map(String::len).sum::<usize>() + details.sum::<usize>()
    }
}

/// What a tool returned to one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub tool_call_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub content: Content,
}

/// A call of a tool as the model wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "SerializedCall", into = "SerializedCall")]
pub struct ToolCall {
    /// The id that the result has to repeat.
    pub id: String,
    pub name: String,
    /// The arguments as the model wrote them: unchecked JSON text.
    pub arguments: String,
    /// Additional members; some providers require them back.
    pub extra: Map<String, Value>,
}

impl ToolCall {
    /// A call without extra members.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            extra: Map::new(),
        }
    }

    /// The arguments as an object; empty text counts as an empty one.
    pub fn parse_arguments(&self) -> Result<Map<String, Value>, serde_json::Error> {
        if self.arguments.trim().is_empty() {
            return Ok(Map::new());
        }
        serde_json::from_str(&self.arguments)
    }

    /// The arguments as valid JSON text: what is not an object is wrapped in `_raw`.
    pub(crate) fn valid_json_arguments(&self) -> Cow<'_, str> {
        let text = self.arguments.trim();
        if text.is_empty() {
            return Cow::Borrowed("{}");
        }
        let is_object =
            text.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        if is_object {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(serde_json::json!({ "_raw": self.arguments }).to_string())
        }
    }
}

/// The JSON form of a call.
#[derive(Serialize, Deserialize)]
struct SerializedCall {
    #[serde(default)]
    id: String,
    #[serde(rename = "type", default = "default_call_kind")]
    kind: String,
    function: SerializedFunction,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct SerializedFunction {
    name: String,
    #[serde(default)]
    arguments: String,
}

fn default_call_kind() -> String {
    "function".into()
}

impl From<SerializedCall> for ToolCall {
    fn from(wire: SerializedCall) -> Self {
        Self {
            id: wire.id,
            name: wire.function.name,
            arguments: wire.function.arguments,
            extra: wire.extra,
        }
    }
}

impl From<ToolCall> for SerializedCall {
    fn from(call: ToolCall) -> Self {
        Self {
            id: call.id,
            kind: default_call_kind(),
            function: SerializedFunction {
                name: call.name,
                arguments: call.arguments,
            },
            extra: call.extra,
        }
    }
}

/// Text, or parts of several kinds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    /// Text and other things, in order.
    Parts(Vec<Part>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<Part>> for Content {
    fn from(parts: Vec<Part>) -> Self {
        Self::Parts(parts)
    }
}

impl Content {
    /// All text in it, parts joined by line breaks.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Parts(parts) => {
                let texts: Vec<_> = parts.iter().filter_map(Part::text).collect();
                Cow::Owned(texts.join("\n"))
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Parts(parts) => parts.is_empty(),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Parts(parts) => parts.iter().map(Part::memory_bytes).sum(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Part {
    Known(KnownPart),
    /// Any other, kept unchanged.
    Other(Value),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum KnownPart {
    Text { text: String },
    ImageUrl { image_url: Image },
}

/// An image, by address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// A `data:` URL that holds the image, or an address the provider can fetch it from.
    pub url: String,
    /// The resolution hint, where the model supports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Part {
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::Known(KnownPart::Text { text: text.into() })
    }

    pub fn from_image_url(url: impl Into<String>) -> Self {
        let image_url = Image {
            url: url.into(),
            detail: None,
        };
        Self::Known(KnownPart::ImageUrl { image_url })
    }

    pub fn from_image_bytes(media_type: &str, bytes: &[u8]) -> Self {
        let data = BASE64_STANDARD.encode(bytes);
        Self::from_image_url(format!("data:{media_type};base64,{data}"))
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Known(KnownPart::Text { text }) => Some(text),
            _ => None,
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Known(KnownPart::Text { text }) => text.len(),
                Self::Known(KnownPart::ImageUrl { image_url }) => image_url.url.len(),
                Self::Other(value) => value.to_string().len(),
            }
    }
}

impl Image {
    /// An image from base64 data, if models support its actual format. The declared type is ignored.
    pub(crate) fn from_base64(data: &str) -> Option<Self> {
        let beginning = BASE64_STANDARD.decode(data.get(..16)?).ok()?;
        let media_type = detect_image_type(&beginning)?;
        Some(Self {
            url: format!("data:{media_type};base64,{data}"),
            detail: None,
        })
    }

    /// Media type and base64 data of a `data:` URL.
    pub(crate) fn data_url_parts(&self) -> Option<(&str, &str)> {
        let (header, data) = self.url.strip_prefix("data:")?.split_once(',')?;
        let media_type = header.strip_suffix(";base64")?;
        Some((media_type, data))
    }
}

pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
