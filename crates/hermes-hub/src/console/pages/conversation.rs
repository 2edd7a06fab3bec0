//! A conversation: its messages in order, the newest page first; tool calls and their results are folded.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{is_there, render};
use crate::{
    Problem,
    api_types::Time,
    console::{diff::plain_text, frame::Frame, request::PageRequest},
};

const PAGE_SIZE: u32 = 50;
/// Of a text; the rest is one click away.
const SHOWN_CHARS: usize = 8000;

#[derive(Template)]
#[template(path = "pages/conversation.html")]
struct ConversationPage {
    page: Frame,
    tenant: String,
    id: String,
    source: String,
    started_at: Time,
    messages: Vec<MessageView>,
    /// Where the messages before these are.
    older: Option<String>,
    /// Where the messages after these are.
    newer: Option<String>,
    /// The end of the conversation, if this page began elsewhere.
    end: Option<String>,
    shows_all: bool,
    /// The same with messages that were summed up, or without them.
    other_all: String,
    chat: Option<String>,
    /// Its title, for those who may rename it.
    rename: Option<String>,
    may_delete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageView {
    id: i64,
    role: String,
    time: Time,
    text: String,
    /// Whether the Hub has left the end out.
    truncated: bool,
    tool_name: Option<String>,
    tool_calls: Value,
    /// Whether its text is shown to the end.
    #[serde(skip)]
    is_whole: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversationView {
    title: Option<String>,
    source: String,
    started_at: Time,
    messages: Vec<MessageView>,
    next_cursor: Option<String>,
}

impl MessageView {
    fn is_tool(&self) -> bool {
        self.role == "tool"
    }

    fn tool(&self) -> &str {
        self.tool_name.as_deref().unwrap_or("tool")
    }

    /// What is shown of its text, and whether there is more.
    fn shown(&self) -> (&str, bool) {
        match self.text.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) if !self.is_whole => (&self.text[..end], true),
            _ => (&self.text, false),
        }
    }

    /// The tools that were called in it: their names and arguments.
    fn calls(&self) -> Vec<(String, String)> {
        let calls = self.tool_calls.as_array().into_iter().flatten();
        calls.map(read_call).collect()
    }
}

/// A call as agents store it: with its arguments as JSON in a text.
fn read_call(call: &Value) -> (String, String) {
    let function = call.get("function").unwrap_or(call);
    let name = function["name"].as_str().unwrap_or("?").to_owned();
    let arguments = match &function["arguments"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| text.clone().into()),
        other => other.clone(),
    };
    let text: String = plain_text(&arguments).chars().take(SHOWN_CHARS).collect();
    (name, text)
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let tenant = request.path_value("tenant_id").to_owned();
    let id = request.path_value("session_id").to_owned();
    let from: Option<i64> = request.query("from").and_then(|from| from.parse().ok());
    let shows_all = request.query("all").is_some();
    let mut arguments = json!({
        "tenant_id": tenant, "session_id": id, "limit": PAGE_SIZE, "all": shows_all,
    });
    match from {
        Some(from) => arguments["from"] = from.into(),
        None => arguments["newest"] = true.into(),
    }
    if let Some(cursor) = request.query("cursor") {
        arguments["cursor"] = cursor.into();
    }
    let mut found: ConversationView = request.read("list_session_messages", arguments).await?;
    let whole: Option<i64> = request.query("whole").and_then(|id| id.parse().ok());
    for message in &mut found.messages {
        message.is_whole = whole == Some(message.id);
    }
    let title = found.title.filter(|title| !title.is_empty());
    let rename = request.may("rename_session");
    let rename = rename.then(|| title.clone().unwrap_or_default());
    let title = title.unwrap_or_else(|| request.texts.get("conversation.title").to_owned());
    let next = found.next_cursor;
    let next = next.map(|cursor| request.address_with("cursor", &cursor));
    let (older, newer) = match from {
        Some(_) => (None, next),
        None => (next, None),
    };
    let is_elsewhere = from.is_some() || request.query("cursor").is_some();
    let address = &request.path;
    let encoded: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    let chat = is_there(&request, "/tenants/{tenant_id}/chat")
        .then(|| format!("/tenants/{tenant}/chat?session={encoded}"));
    render(&ConversationPage {
        page: Frame::new(&request, title),
        chat,
        rename,
        may_delete: request.may("delete_session"),
        end: is_elsewhere.then(|| address.clone()),
        other_all: request.address_with("all", if shows_all { "" } else { "1" }),
        shows_all,
        source: found.source,
        started_at: found.started_at,
        messages: found.messages,
        older,
        newer,
        tenant,
        id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_agents_store_them() {
        let stored =
            json!({"id": "c1", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}});
        let (name, arguments) = read_call(&stored);
        assert_eq!(name, "read");
        assert_eq!(arguments, "{\n  \"path\": \"a\"\n}");
        let (name, arguments) = read_call(&json!({"name": "x", "arguments": "not json"}));
        assert_eq!((name.as_str(), arguments.as_str()), ("x", "not json"));
        assert_eq!(read_call(&json!(1)).0, "?");
    }
}
