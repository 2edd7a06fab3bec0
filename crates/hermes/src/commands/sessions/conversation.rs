//! A whole conversation as people and scripts see it.

use std::collections::HashSet;

use hermes_store::{
    Content, MessageQuery, MessageRows, MessageState, Session, Store, StoreError, StoredMessage,
    local_iso,
};
use serde_json::{Value, json};

/// Everything that was said and not taken back, in order. What compaction wrote down again is there once.
pub(super) async fn read_messages(
    store: &Store,
    session: &Session,
) -> Result<Vec<StoredMessage>, StoreError> {
    let query = MessageQuery {
        rows: MessageRows::NotRewound,
        limit: u32::MAX,
        ..MessageQuery::default()
    };
    let mut messages = store.read_messages(&session.id, &query).await?;
    let mut seen = HashSet::new();
    // A message that stays through a compaction gets a new row with its old time.
    messages.retain(|message| {
        let body = &message.body;
        let key = (
            message.timestamp.to_bits(),
            body.role.clone(),
            body.tool_call_id.clone(),
        );
        match message.state {
            MessageState::Compacted => seen.insert(key),
            _ => !seen.contains(&key),
        }
    });
    Ok(messages)
}

/// Minutes are enough for people: `2026-03-04 05:06`.
pub(super) fn shown_time(epoch: f64) -> String {
    local_iso(epoch)
        .chars()
        .take(16)
        .collect::<String>()
        .replace('T', " ")
}

/// A call as `name` and its arguments in one line.
pub(super) fn tool_calls(message: &StoredMessage) -> Vec<(String, String)> {
    let calls = message.body.tool_calls.as_ref().and_then(Value::as_array);
    calls
        .into_iter()
        .flatten()
        .map(|call| {
            let function = &call["function"];
            let arguments = match &function["arguments"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            (
                function["name"].as_str().unwrap_or("?").to_owned(),
                arguments,
            )
        })
        .collect()
}

/// The words of a message.
pub(super) fn message_text(message: &StoredMessage) -> String {
    let content = message.body.content.as_ref();
    content
        .map(|content| content.text().into_owned())
        .unwrap_or_default()
}

/// A session for scripts.
pub(super) fn session_json(session: &Session) -> Value {
    let usage = &session.usage;
    json!({
        "id": session.id.as_str(),
        "title": session.title,
        "source": session.source,
        "model": session.model,
        "started_at": session.started_at,
        "ended_at": session.ended_at,
        "end_reason": session.end_reason,
        "message_count": session.message_count,
        "tool_call_count": session.tool_call_count,
        "usage": {
            "api_calls": usage.api_calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "estimated_cost_usd": usage.estimated_cost_usd,
        },
        "cwd": session.cwd,
        "parent_session_id": session.parent.as_ref().map(hermes_store::SessionId::as_str),
        "session_key": session.session_key.as_ref().map(hermes_store::SessionKey::as_str),
        "display_name": session.display_name,
        "archived": session.archived,
    })
}

/// A message for scripts, without the members that have nothing to say.
pub(super) fn message_json(message: &StoredMessage) -> Value {
    let body = &message.body;
    let content = match &body.content {
        Some(Content::Text(text)) => json!(text),
        Some(Content::Parts(parts)) => parts.clone(),
        None => Value::Null,
    };
    let mut object = json!({
        "id": message.id.0,
        "role": body.role.as_str(),
        "timestamp": message.timestamp,
        "content": content,
    });
    let state = match message.state {
        MessageState::Active => None,
        MessageState::Compacted => Some("compacted"),
        MessageState::Rewound => Some("rewound"),
    };
    for (key, value) in [
        ("state", json!(state)),
        ("tool_calls", json!(body.tool_calls)),
        ("tool_call_id", json!(body.tool_call_id)),
        ("tool_name", json!(body.tool_name)),
        ("reasoning", json!(body.reasoning)),
        ("finish_reason", json!(body.finish_reason)),
        ("platform_message_id", json!(body.platform_message_id)),
    ] {
        if !value.is_null() {
            object[key] = value;
        }
    }
    object
}
