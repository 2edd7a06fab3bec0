//! Wraps results: a JSON document as text, and the same text as structured content.

use std::sync::Arc;

use hermes_store::StoreError;
use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, ErrorCode, JsonObject},
};
use serde::Serialize;
use serde_json::{Value, json};

/// A tool's refusal: not a protocol error, but a document with the reason.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolRefusal(pub(super) Value);

impl ToolRefusal {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(json!({"error": reason.into()}))
    }

    /// The conversations cannot be read. Clients know this message; the cause is added.
    pub(super) fn unavailable(error: &StoreError) -> Self {
        Self(json!({"error": "Session database unavailable", "reason": error.to_string()}))
    }

    /// Converts it to a protocol error with this code, unless the conversations cannot be read at all.
    pub(super) fn into_error(self, kind: ErrorCode) -> ErrorData {
        let text = |key: &str| self.0[key].as_str();
        let error = text("error").unwrap_or("it cannot be read");
        match text("reason") {
            Some(reason) => ErrorData::internal_error(format!("{error}: {reason}"), None),
            None => ErrorData::new(kind, error.to_owned(), None),
        }
    }
}

/// A tool's answer: the text of a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonDocument(String);

impl JsonDocument {
    /// Indented. Serialised directly: an intermediate tree of a long list would cost more than its text.
    pub(super) fn indented(value: &impl Serialize) -> Self {
        Self(serde_json::to_string_pretty(value).unwrap_or_default())
    }

    pub(super) fn line(value: &impl Serialize) -> Self {
        Self(serde_json::to_string(value).unwrap_or_default())
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl From<Value> for JsonDocument {
    fn from(value: Value) -> Self {
        Self::indented(&value)
    }
}

pub(super) fn wrap_result(outcome: Result<JsonDocument, ToolRefusal>) -> CallToolResult {
    let text = match outcome {
        Ok(JsonDocument(text)) => text,
        Err(ToolRefusal(document)) => document.to_string(),
    };
    let mut result = CallToolResult::success(vec![ContentBlock::text(text.clone())]);
    result.structured_content = Some(json!({"result": text}));
    result
}

/// The answer to an invalid call.
pub(super) fn invalid_call(reason: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(reason)])
}

/// The schema of every tool's structured content.
pub(super) fn output_schema() -> Arc<JsonObject> {
    let mut schema = JsonObject::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), json!({"result": {"type": "string"}}));
    schema.insert("required".into(), json!(["result"]));
    Arc::new(schema)
}
