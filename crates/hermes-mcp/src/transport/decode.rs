//! Turns one received JSON text into a message.
//!
//! rmcp's own way tries every kind of result in turn. Here the answer to a tool call, by far the most frequent and the
//! largest, and the list of tools, which every start waits for, are read straight into their types, since the request
//! they answer is known.

use std::collections::HashMap;

use rmcp::model::{
    CallToolResult, ClientRequest, ErrorData, JsonRpcMessage, ListToolsResult, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

/// As deep as `serde_json` reads: what is nested deeper could use up the stack.
const MAX_NESTING: usize = 127;

/// What a request in flight asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedReply {
    /// `tools/call`.
    ToolCall,
    /// `tools/list`.
    Tools,
    /// Another list, a prompt or a resource.
    Offer,
    /// Anything else.
    Other,
}

impl ExpectedReply {
    pub(super) fn for_request(request: &ClientRequest) -> Self {
        match request {
            ClientRequest::CallToolRequest(_) => Self::ToolCall,
            ClientRequest::ListToolsRequest(_) => Self::Tools,
            ClientRequest::ListResourcesRequest(_)
            | ClientRequest::ListResourceTemplatesRequest(_)
            | ClientRequest::ListPromptsRequest(_)
            | ClientRequest::ReadResourceRequest(_)
            | ClientRequest::GetPromptRequest(_) => Self::Offer,
            _ => Self::Other,
        }
    }

    /// Whether what the server offers was asked for.
    pub(super) fn is_offer(self) -> bool {
        matches!(self, Self::Tools | Self::Offer)
    }

    /// Reads a result as what was asked for, where that is worth it.
    fn parse_result(self, result: &str) -> Option<ServerResult> {
        match self {
            Self::ToolCall => serde_json::from_str::<CallToolResult>(result)
                .ok()
                .map(ServerResult::CallToolResult),
            Self::Tools => serde_json::from_str::<ListToolsResult>(result)
                .ok()
                .map(ServerResult::ListToolsResult),
            Self::Offer | Self::Other => None,
        }
    }
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

/// The same while a tool call is waited for: read in one pass, since results can be large.
#[derive(Deserialize)]
struct ToolCallResponse {
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(default)]
    method: Option<IgnoredAny>,
    #[serde(default)]
    result: Option<CallToolResult>,
}

/// Reads the answer to a tool call. `None` for anything else: it has to be looked at more closely.
fn parse_tool_response(
    line: &[u8],
    pending: &mut HashMap<RequestId, ExpectedReply>,
) -> Option<ServerJsonRpcMessage> {
    if !pending
        .values()
        .any(|expected| *expected == ExpectedReply::ToolCall)
    {
        return None;
    }
    match serde_json::from_slice(line).ok()? {
        ToolCallResponse {
            id: Some(id),
            method: None,
            result: Some(result),
        } => {
            let known =
                known_id(pending, &id).filter(|known| pending[known] == ExpectedReply::ToolCall)?;
            pending.remove(&known);
            let result = ServerResult::CallToolResult(result);
            Some(JsonRpcMessage::response(result, id))
        }
        _ => None,
    }
}

/// Reads one line; `None` for what is not a message.
pub(super) fn parse_message(
    line: &[u8],
    pending: &mut HashMap<RequestId, ExpectedReply>,
) -> Option<ServerJsonRpcMessage> {
    let line = line.trim_ascii();
    if line.first() != Some(&b'{') {
        if !line.is_empty() {
            tracing::debug!(bytes = line.len(), "skipped a line that is not JSON-RPC");
        }
        return None;
    }
    if let Some(answer) = parse_tool_response(line, pending) {
        return Some(answer);
    }
    let envelope: Envelope<'_> = serde_json::from_slice(line)
        .inspect_err(|error| tracing::debug!(%error, "skipped a line that is not JSON-RPC"))
        .ok()?;
    let mut kind = ExpectedReply::Other;
    let mut answered = None;
    if let (Some(id), None) = (envelope.id, envelope.method) {
        let Some(known) = known_id(pending, &id).and_then(|id| pending.remove(&id)) else {
            tracing::debug!(%id, "skipped a response with an unknown request id");
            return None;
        };
        kind = known;
        if let Some(result) = envelope.result
            && let Some(result) = kind.parse_result(result.get())
        {
            return Some(JsonRpcMessage::response(result, id));
        }
        answered = Some(id);
    }
    match parse_response(line, kind) {
        Ok(message) => Some(message),
        // Somebody waits for this one.
        Err(error) if answered.is_some() => Some(JsonRpcMessage::error(
            unreadable_error(line, &error),
            answered,
        )),
        Err(error) => {
            tracing::debug!(%error, "skipped a message of unknown shape");
            None
        }
    }
}

/// The id of an answer that cannot be read otherwise.
pub(super) fn response_id(text: &[u8]) -> Option<RequestId> {
    let envelope: Envelope<'_> = serde_json::from_slice(text).ok()?;
    envelope.id.filter(|_| envelope.method.is_none())
}

/// What a request fails with whose answer cannot be read.
pub(super) fn unreadable_error(text: &[u8], error: &serde_json::Error) -> ErrorData {
    let levels = levels(text);
    let reason = if levels > MAX_NESTING {
        format!("it is nested {levels} levels deep, and at most {MAX_NESTING} are read")
    } else {
        error.to_string()
    };
    ErrorData::internal_error(
        format!("the server's answer cannot be read: {reason}"),
        None,
    )
}

/// The error that an answer becomes which is nested too deep for anybody to read; rmcp would leave it out.
pub(super) fn too_deep_error(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    // Most texts do not have as many brackets at all.
    memchr::memchr2_iter(b'[', b'{', text).nth(MAX_NESTING)?;
    if levels(text) <= MAX_NESTING {
        return None;
    }
    let id = response_id(text)?;
    let error = serde_json::from_slice::<Value>(text).err()?;
    Some(JsonRpcMessage::error(
        unreadable_error(text, &error),
        Some(id),
    ))
}

/// How deep arrays and objects are nested in a JSON text.
fn levels(text: &[u8]) -> usize {
    let (mut depth, mut deepest): (usize, usize) = (0, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The request that an answer belongs to. Some servers send numbers back as text.
fn known_id(pending: &HashMap<RequestId, ExpectedReply>, id: &RequestId) -> Option<RequestId> {
    let as_number = match id {
        RequestId::String(text) => text.parse().ok().map(RequestId::Number),
        RequestId::Number(_) => None,
    };
    std::iter::once(id.clone())
        .chain(as_number)
        .find(|candidate| pending.contains_key(candidate))
}

/// Reads a message, knowing what it may be an answer to.
///
/// A list, prompt or resource with one unreadable part would be taken for the result of a tool call, since it shares
/// `_meta` and `resultType` with those, and its parts would be lost. Without these members it stays whole, so that what
/// is usable can be picked out of it.
pub(super) fn parse_response(
    text: &[u8],
    expected: ExpectedReply,
) -> serde_json::Result<ServerJsonRpcMessage> {
    let message: ServerJsonRpcMessage = serde_json::from_slice(text)?;
    match &message {
        JsonRpcMessage::Response(response)
            if expected.is_offer() && is_misread(&response.result) =>
        {
            let mut whole: Value = serde_json::from_slice(text)?;
            if let Some(result) = whole["result"].as_object_mut() {
                result.retain(|name, _| name != "_meta" && name != "resultType");
            }
            serde_json::from_value(whole)
        }
        _ => Ok(message),
    }
}

/// Whether a result was taken for one of a kind that a list, a prompt or a resource never is.
fn is_misread(result: &ServerResult) -> bool {
    matches!(
        result,
        ServerResult::CallToolResult(_)
            | ServerResult::TaskAckResult(_)
            | ServerResult::EmptyResult(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(requests: &[(i64, ExpectedReply)]) -> HashMap<RequestId, ExpectedReply> {
        let numbered = requests.iter().copied();
        numbered
            .map(|(id, expected)| (RequestId::Number(id), expected))
            .collect()
    }

    fn result(line: &str, pending: &mut HashMap<RequestId, ExpectedReply>) -> ServerResult {
        match parse_message(line.as_bytes(), pending) {
            Some(JsonRpcMessage::Response(response)) => response.result,
            other => panic!("{other:?}"),
        }
    }

    const CALL: &str =
        r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"a"}]}}"#;
    const TOOLS: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#;

    #[test]
    fn answers_are_told_apart_by_their_requests_while_both_are_waited_for() {
        let mut pending = pending(&[(1, ExpectedReply::Tools), (2, ExpectedReply::ToolCall)]);
        assert!(matches!(
            result(TOOLS, &mut pending),
            ServerResult::ListToolsResult(_)
        ));
        assert!(matches!(
            result(CALL, &mut pending),
            ServerResult::CallToolResult(_)
        ));
        assert!(pending.is_empty());
    }

    #[test]
    fn a_subscription_that_stays_open_is_still_waited_for_after_a_call() {
        let mut pending = pending(&[(1, ExpectedReply::Other), (2, ExpectedReply::ToolCall)]);
        let answer = parse_tool_response(CALL.as_bytes(), &mut pending);
        assert!(answer.is_some(), "it is read in one pass");
        assert_eq!(pending.len(), 1);
    }

    #[test]
    fn an_answer_that_is_nested_too_deep_fails_its_request_and_names_the_cause() {
        for levels in [200, 200_000] {
            let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let line = CALL.replace("\"a\"", &format!("\"a\",\"x\":{deep}"));
            for kind in [
                ExpectedReply::ToolCall,
                ExpectedReply::Tools,
                ExpectedReply::Offer,
                ExpectedReply::Other,
            ] {
                let mut pending = pending(&[(2, kind)]);
                let Some(JsonRpcMessage::Error(error)) =
                    parse_message(line.as_bytes(), &mut pending)
                else {
                    panic!("{kind:?}")
                };
                assert_eq!(error.id, Some(RequestId::Number(2)));
                let text = error.error.message.as_ref();
                assert!(
                    text.contains(&format!("{} levels deep", levels + 4)),
                    "{text}"
                );
                assert!(pending.is_empty());
            }
        }
    }

    #[test]
    fn as_deep_as_is_read_is_not_too_deep() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(serde_json::from_str::<Value>(&deep(MAX_NESTING)).is_ok());
        assert!(serde_json::from_str::<Value>(&deep(MAX_NESTING + 1)).is_err());
        assert_eq!(levels(br#"{"a[[[":["\"[[",{}]}"#), 3);
    }

    #[test]
    fn an_id_may_come_back_as_text() {
        let mut pending = pending(&[(2, ExpectedReply::ToolCall)]);
        result(&CALL.replace("\"id\":2", "\"id\":\"2\""), &mut pending);
        assert!(pending.is_empty());
    }
}
