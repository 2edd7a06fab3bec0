//! Turns one received JSON text into a message.
//!
//! rmcp's own way tries every kind of result in turn. Here the answer to a tool call, by far the most frequent and the
//! largest, is read straight into its type, since the request it answers is known.

use std::collections::HashMap;

use rmcp::model::{CallToolResult, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

/// What a request in flight asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// `tools/call`.
    ToolCall,
    /// Anything else.
    Other,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    id: Option<RequestId>,
    /// There in requests and notifications of the server, whose ids are its own.
    #[serde(default)]
    method: Option<IgnoredAny>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
}

/// Reads one line; `None` for what is no message at all.
pub(super) fn message(
    line: &[u8],
    asked: &mut HashMap<RequestId, Asked>,
) -> Option<ServerJsonRpcMessage> {
    let line = line.trim_ascii();
    if line.first() != Some(&b'{') {
        if !line.is_empty() {
            tracing::debug!(bytes = line.len(), "skipped a line that is no JSON-RPC");
        }
        return None;
    }
    let envelope: Envelope<'_> = serde_json::from_slice(line)
        .inspect_err(|error| tracing::debug!(%error, "skipped a line that is no JSON-RPC"))
        .ok()?;
    if let (Some(id), None) = (envelope.id, envelope.method) {
        let kind = asked.remove(&id);
        if kind == Some(Asked::ToolCall)
            && let Some(result) = envelope.result
            && let Ok(result) = serde_json::from_str::<CallToolResult>(result.get())
        {
            return Some(JsonRpcMessage::response(
                ServerResult::CallToolResult(result),
                id,
            ));
        }
    }
    serde_json::from_slice(line)
        .inspect_err(|error| tracing::debug!(%error, "skipped a message of no known shape"))
        .ok()
}
