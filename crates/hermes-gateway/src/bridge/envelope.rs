//! How results are wrapped: one text that is a JSON document, and the same text as structured content.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::{Value, json};

/// A tool's own "no": not an error of the protocol, but a document that says why.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal(pub(super) Value);

impl Refusal {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(json!({"error": reason.into()}))
    }
}

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Indented.
    Pretty,
    /// On one line.
    Line,
}

/// What a tool answers.
pub(super) fn wrap(outcome: Result<Value, Refusal>, style: Style) -> CallToolResult {
    let text = match (outcome, style) {
        (Ok(document), Style::Pretty) => format!("{document:#}"),
        (Ok(document), Style::Line) | (Err(Refusal(document)), _) => document.to_string(),
    };
    let mut result = CallToolResult::success(vec![ContentBlock::text(text.clone())]);
    result.structured_content = Some(json!({"result": text}));
    result
}

/// What is answered when a tool can not even be called so.
pub(super) fn misused(reason: String) -> CallToolResult {
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
