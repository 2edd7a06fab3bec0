//! `conversations_list` and `conversation_get`.

use serde_json::{Value, json};

use crate::{
    bridge::{Bridge, arguments::Arguments, envelope::Refusal},
    conversations::Entry,
};

/// Which conversations are listed.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::bridge) struct Filter<'a> {
    pub(in crate::bridge) platform: Option<&'a str>,
    pub(in crate::bridge) search: Option<&'a str>,
}

pub(super) async fn conversations_list(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<Value, Refusal> {
    let filter = Filter {
        platform: arguments.optional("platform"),
        search: arguments.optional("search"),
    };
    list(bridge, filter, arguments.count("limit")).await
}

/// The newest conversations, as `conversations_list` shows them.
pub(in crate::bridge) async fn list(
    bridge: &Bridge,
    filter: Filter<'_>,
    limit: usize,
) -> Result<Value, Refusal> {
    let entries = bridge.conversations().await?;
    let found = entries.iter().filter(|entry| filter.matches(entry));
    let conversations: Vec<Value> = found.take(limit).map(shown).collect();
    Ok(json!({"count": conversations.len(), "conversations": conversations}))
}

impl Filter<'_> {
    fn matches(&self, entry: &Entry) -> bool {
        let of_platform = self
            .platform
            .is_none_or(|platform| platform.eq_ignore_ascii_case(&entry.platform));
        let found = self.search.is_none_or(|search| {
            let search = search.to_lowercase();
            [&entry.display_name, &entry.chat_name, &entry.session_key]
                .iter()
                .any(|text| text.to_lowercase().contains(&search))
        });
        of_platform && found
    }
}

fn shown(entry: &Entry) -> Value {
    json!({
        "session_key": entry.session_key,
        "session_id": entry.session_id,
        "platform": entry.platform,
        "chat_type": entry.chat_type,
        "display_name": entry.display_name,
        "chat_name": of_origin(entry, "chat_name"),
        "user_name": of_origin(entry, "user_name"),
        "updated_at": entry.updated_at,
    })
}

/// What the origin says, which may be null; an empty text where it says nothing.
fn of_origin(entry: &Entry, name: &str) -> Value {
    entry.origin.get(name).cloned().unwrap_or_else(|| "".into())
}

pub(super) async fn conversation_get(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<Value, Refusal> {
    let entry = find(bridge, arguments.text("session_key")).await?;
    Ok(json!({
        "session_key": entry.session_key,
        "session_id": entry.session_id,
        "platform": entry.platform,
        "chat_type": entry.chat_type,
        "display_name": entry.display_name,
        "user_name": of_origin(&entry, "user_name"),
        "chat_name": of_origin(&entry, "chat_name"),
        "chat_id": of_origin(&entry, "chat_id"),
        "thread_id": entry.origin.get("thread_id"),
        "updated_at": entry.updated_at,
        "created_at": entry.created_at,
        "input_tokens": entry.input_tokens,
        "output_tokens": entry.output_tokens,
        "total_tokens": entry.total_tokens,
    }))
}

/// The conversation of that key.
pub(in crate::bridge) async fn find(bridge: &Bridge, key: &str) -> Result<Entry, Refusal> {
    let entries = bridge.conversations().await?;
    let mut found = entries.iter().filter(|entry| entry.session_key == key);
    found
        .next()
        .cloned()
        .ok_or_else(|| Refusal::new(format!("Conversation not found: {key}")))
}
