//! What went into a tool call and what came out of it, from the conversation of the run.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::console::request::PageRequest;

/// Messages that are looked through, the newest ones.
const MAX_MESSAGES: u32 = 500;

#[derive(Default)]
pub(in crate::console::pages) struct CallDetails {
    pub(in crate::console::pages) input: Option<String>,
    pub(in crate::console::pages) output: Option<String>,
    /// Whether the end of the output was left out.
    pub(in crate::console::pages) is_cut: bool,
}

#[derive(Deserialize)]
struct MessagesOfRun {
    messages: Vec<MessageOfRun>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageOfRun {
    text: String,
    truncated: bool,
    tool_call_id: Option<String>,
    tool_calls: Value,
}

/// Looks for a call. Nothing is found where the reader may not read conversations, or where it is kept no more.
pub(in crate::console::pages) async fn find_call(
    request: &PageRequest,
    session: &str,
    call: &str,
) -> CallDetails {
    let wanted = json!({
        "tenant_id": request.path_value("tenant_id"),
        "session_id": session,
        "all": true,
        "newest": true,
        "limit": MAX_MESSAGES,
    });
    let mut found = CallDetails::default();
    let read = request.read::<MessagesOfRun>("list_session_messages", wanted);
    let Ok(MessagesOfRun { messages }) = read.await else {
        return found;
    };
    for message in messages {
        let calls = message.tool_calls.as_array().into_iter().flatten();
        for made in calls.filter(|made| made["id"] == call) {
            found.input = Some(show_arguments(made));
        }
        if message.tool_call_id.as_deref() == Some(call) {
            found.output = Some(message.text);
            found.is_cut = message.truncated;
        }
    }
    found
}

/// The arguments of a call, one a line where they are an object.
fn show_arguments(call: &Value) -> String {
    let arguments = match &call["function"]["arguments"] {
        Value::Null => &call["arguments"],
        arguments => arguments,
    };
    let parsed = match arguments {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| arguments.clone()),
        other => other.clone(),
    };
    match &parsed {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_as_json_or_as_they_are() {
        let call = json!({"id": "c", "function": {"name": "x", "arguments": "{\"a\":1}"}});
        assert_eq!(show_arguments(&call), "{\n  \"a\": 1\n}");
        let broken = json!({"id": "c", "function": {"name": "x", "arguments": "{\"a\":"}});
        assert_eq!(show_arguments(&broken), "{\"a\":");
    }
}
