//! How a call ended, and the JSON text the model gets for it.
//!
//! Text of errors is redacted when the outcome is made; successful results are passed on untouched. A large result is
//! never cloned: it is kept as it came and written out once.

mod utility;

use std::{borrow::Cow, time::Duration};

use rmcp::model::CallToolResult;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    call::{content, content::MediaStore},
    connection::link::LoginAdvice,
    tools::names::RegisteredName,
};

/// Removes secrets from text that is about to be shown.
pub type RedactFn<'a> = &'a (dyn Fn(&str) -> String + Sync);

#[derive(Debug)]
pub enum Outcome {
    /// The tool answered, be it with an error of its own.
    Answered(Box<ToolReply>),
    /// One of the wrappers around resources and prompts succeeded with this object.
    Utility(Value),
    /// No answer came.
    Failure(CallFailure),
}

#[derive(Debug)]
pub struct ToolReply {
    result: CallToolResult,
    /// The content as text; `None` while that is just the one text block in `result`.
    text: Option<String>,
    /// The redacted structured content of an error.
    error_details: Option<Value>,
}

/// Why a call has no answer. Displays as what the model is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The call did not reach the server, or the server refused it. Already redacted.
    #[error("{0}")]
    Transport(String),
    /// The answer did not come in time.
    #[error("the call timed out after {:.1} s (allowed: {} s)", .elapsed.as_secs_f64(), .allowed.as_secs_f64())]
    TimedOut {
        /// Since the call was sent.
        elapsed: Duration,
        /// The limit that was passed.
        allowed: Duration,
    },
    #[error("interrupted by the user")]
    Interrupted,
    /// The user has to log in first.
    #[error("the MCP server `{server}` needs a login; {advice}")]
    LoginNeeded {
        /// The server's name as configured.
        server: String,
        /// What to do.
        advice: LoginAdvice,
    },
    #[error("Unknown tool: {0}")]
    UnknownTool(String),
    /// A utility tool was called without a parameter it needs.
    #[error("missing required parameter `{0}`")]
    MissingParameter(&'static str),
}

impl From<CallFailure> for Outcome {
    fn from(failure: CallFailure) -> Self {
        Self::Failure(failure)
    }
}

impl Outcome {
    /// The outcome of a tool call that came back. `link_tool` is the tool that reads resources the result links to.
    pub async fn from_result(
        result: CallToolResult,
        media: &MediaStore,
        link_tool: Option<&RegisteredName>,
        redact: RedactFn<'_>,
    ) -> Self {
        let text = match content::single_text(&result.content) {
            Some(_) => None,
            None => Some(media.render(&result.content, link_tool).await),
        };
        let mut answer = ToolReply {
            result,
            text,
            error_details: None,
        };
        if answer.is_error() {
            answer.text = Some(match answer.text() {
                "" => "the tool reported an error without saying more".into(),
                text => redact(text),
            });
            answer.error_details = answer.result.structured_content.clone().map(|mut details| {
                redact_strings(&mut details, redact);
                details
            });
        }
        Self::Answered(Box::new(answer))
    }

    /// Lets somebody add to what a tool says of its error.
    #[must_use]
    pub(crate) fn amend_error(mut self, amend: impl FnOnce(&mut String)) -> Self {
        if let Self::Answered(answer) = &mut self
            && answer.is_error()
            && let Some(text) = &mut answer.text
        {
            amend(text);
        }
        self
    }

    /// A call that the transport or the server's state made impossible.
    pub fn transport_error(text: &str, redact: RedactFn<'_>) -> Self {
        CallFailure::Transport(redact(text)).into()
    }

    /// Whether the model gets an `error`.
    pub fn is_error(&self) -> bool {
        match self {
            Self::Answered(answer) => answer.is_error(),
            Self::Utility(_) => false,
            Self::Failure(_) => true,
        }
    }

    /// What a person wants to read: the text, or the structured content where there is no text.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Answered(answer) => match (answer.text(), &answer.result.structured_content) {
                ("", Some(structured)) => Cow::Owned(format!("{structured:#}")),
                (text, _) => Cow::Borrowed(text),
            },
            Self::Utility(object) => match &object["result"] {
                Value::String(text) => Cow::Borrowed(text),
                _ => Cow::Owned(format!("{object:#}")),
            },
            Self::Failure(failure) => Cow::Owned(failure.to_string()),
        }
    }

    /// The result as the server sent it, where there is one.
    pub fn raw(&self) -> Option<&CallToolResult> {
        match self {
            Self::Answered(answer) => Some(&answer.result),
            Self::Utility(_) | Self::Failure(_) => None,
        }
    }

    /// The one line of JSON that goes to the model.
    pub fn to_json(&self) -> String {
        match self {
            Self::Answered(answer) => answer.to_json(),
            Self::Utility(object) => to_json(object),
            Self::Failure(failure) => {
                let mut object = json!({"error": failure.to_string()});
                if let CallFailure::LoginNeeded { server, .. } = failure {
                    object["needs_reauth"] = true.into();
                    object["server"] = server.as_str().into();
                }
                to_json(&object)
            }
        }
    }
}

impl ToolReply {
    fn is_error(&self) -> bool {
        self.result.is_error == Some(true)
    }

    fn text(&self) -> &str {
        let text = self.text.as_deref();
        text.or_else(|| content::single_text(&self.result.content))
            .unwrap_or_default()
    }

    fn to_json(&self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct WithText<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            result: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            error: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            structured_content: Option<&'a Value>,
        }
        #[derive(Serialize)]
        struct StructuredOnly<'a> {
            result: &'a Value,
        }

        let text = self.text();
        if self.is_error() {
            return to_json(&WithText {
                result: None,
                error: Some(text),
                structured_content: self.error_details.as_ref(),
            });
        }
        match &self.result.structured_content {
            Some(structured) if text.is_empty() => to_json(&StructuredOnly { result: structured }),
            structured => to_json(&WithText {
                result: Some(text),
                error: None,
                structured_content: structured.as_ref().filter(|s| !repeats_text(text, s)),
            }),
        }
    }
}

/// Whether structured content adds nothing to the text: servers repeat it as text for older clients, or wrap it.
fn repeats_text(text: &str, structured: &Value) -> bool {
    let wraps_text = || {
        structured.as_object().is_some_and(|members| {
            members.len() == 1 && members.get("result").is_some_and(|r| r == text)
        })
    };
    structured.is_null()
        || wraps_text()
        || serde_json::from_str::<Value>(text).is_ok_and(|parsed| parsed == *structured)
}

fn redact_strings(value: &mut Value, redact: RedactFn<'_>) {
    match value {
        Value::String(text) => *text = redact(text),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| redact_strings(item, redact)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| redact_strings(member, redact)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn to_json(shape: &impl Serialize) -> String {
    // Strings and JSON values always serialise; the other arm only keeps this total.
    serde_json::to_string(shape)
        .unwrap_or_else(|error| json!({"error": error.to_string()}).to_string())
}

#[cfg(test)]
mod tests;
