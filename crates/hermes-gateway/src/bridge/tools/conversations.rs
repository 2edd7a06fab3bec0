//! `conversations_list` and `conversation_get`.

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    bridge::{
        Bridge,
        arguments::Arguments,
        envelope::{JsonDocument, ToolRefusal},
    },
    conversations::ConversationEntry,
    platforms::PlatformFilter,
};

#[derive(Debug, Clone, Copy, Default)]
pub(in crate::bridge) struct ConversationFilter<'a> {
    pub(in crate::bridge) platform: Option<&'a str>,
    pub(in crate::bridge) search: Option<&'a str>,
}

pub(super) async fn conversations_list(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<JsonDocument, ToolRefusal> {
    let filter = ConversationFilter {
        platform: arguments.optional("platform"),
        search: arguments.optional("search"),
    };
    list_conversations(bridge, filter, arguments.count("limit")).await
}

/// The newest conversations, as `conversations_list` shows them.
pub(in crate::bridge) async fn list_conversations(
    bridge: &Bridge,
    filter: ConversationFilter<'_>,
    limit: usize,
) -> Result<JsonDocument, ToolRefusal> {
    let entries = bridge.conversations().await?;
    let found = entries.iter().filter(|entry| filter.matches(entry));
    let conversations: Vec<ConversationRow<'_>> = found
        .take(limit)
        .map(|entry| ConversationRow::from_entry(entry))
        .collect();
    let hint = conversations
        .is_empty()
        .then(|| empty_list_hint(bridge, filter, entries.len()));
    Ok(JsonDocument::indented(&ConversationList {
        count: conversations.len(),
        conversations,
        hint,
    }))
}

#[derive(Serialize)]
struct ConversationList<'a> {
    count: usize,
    conversations: Vec<ConversationRow<'a>>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Why a list is empty, and how to see more.
fn empty_list_hint(bridge: &Bridge, filter: ConversationFilter<'_>, others: usize) -> String {
    if others > 0 {
        return format!(
            "None of the {others} conversations matches. Leave out `platform` and `search` to see them."
        );
    }
    let shown = bridge.platform_filter();
    if let Some(platform) = filter.platform
        && !shown.shows(&platform.to_ascii_lowercase())
    {
        return format!(
            "This bridge does not show `{platform}`. `hermes mcp serve --platforms all`, or `bridge.platforms: all` \
             in config.yaml, shows everything."
        );
    }
    if shown.shows_everything() {
        return "This home has no conversations yet.".to_owned();
    }
    let what = if *shown == PlatformFilter::default() {
        "No chat of a messaging platform is open in this home, and this bridge shows only those"
    } else {
        "This home has no conversations of the platforms this bridge shows"
    };
    format!(
        "{what}. Those of the terminal, the API and cron jobs are shown by `hermes mcp serve --platforms all` (or \
         `messaging,cli,api,cron`), or by `bridge.platforms: all` in config.yaml."
    )
}

#[derive(Serialize)]
struct ConversationRow<'a> {
    session_key: &'a str,
    session_id: &'a str,
    platform: &'a str,
    chat_type: &'a str,
    display_name: &'a str,
    chat_name: OriginValue<'a>,
    user_name: OriginValue<'a>,
    updated_at: &'a str,
}

impl<'a> ConversationRow<'a> {
    fn from_entry(entry: &'a ConversationEntry) -> Self {
        Self {
            session_key: &entry.session_key,
            session_id: &entry.session_id,
            platform: &entry.platform,
            chat_type: &entry.chat_type,
            display_name: &entry.display_name,
            chat_name: OriginValue::new(entry, "chat_name"),
            user_name: OriginValue::new(entry, "user_name"),
            updated_at: &entry.updated_at,
        }
    }
}

/// A value of the origin, which may be null; an empty text if it is missing.
#[derive(Serialize)]
#[serde(untagged)]
enum OriginValue<'a> {
    Present(&'a Value),
    Absent(&'static str),
}

impl<'a> OriginValue<'a> {
    fn new(entry: &'a ConversationEntry, name: &str) -> Self {
        let value = entry.origin.get(name);
        value.map_or(Self::Absent(""), Self::Present)
    }
}

impl ConversationFilter<'_> {
    fn matches(&self, entry: &ConversationEntry) -> bool {
        let of_platform = self
            .platform
            .is_none_or(|platform| platform.eq_ignore_ascii_case(&entry.platform));
        let entries = self.search.is_none_or(|search| {
            let search = search.to_lowercase();
            [&entry.display_name, &entry.chat_name, &entry.session_key]
                .iter()
                .any(|text| text.to_lowercase().contains(&search))
        });
        of_platform && entries
    }
}

pub(super) async fn conversation_get(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<JsonDocument, ToolRefusal> {
    let entry = find_conversation(bridge, arguments.text("session_key")).await?;
    Ok(json!({
        "session_key": entry.session_key,
        "session_id": entry.session_id,
        "platform": entry.platform,
        "chat_type": entry.chat_type,
        "display_name": entry.display_name,
        "user_name": OriginValue::new(&entry, "user_name"),
        "chat_name": OriginValue::new(&entry, "chat_name"),
        "chat_id": OriginValue::new(&entry, "chat_id"),
        "thread_id": entry.origin.get("thread_id"),
        "updated_at": entry.updated_at,
        "created_at": entry.created_at,
        "input_tokens": entry.input_tokens,
        "output_tokens": entry.output_tokens,
        "total_tokens": entry.total_tokens,
    })
    .into())
}

pub(in crate::bridge) async fn find_conversation(
    bridge: &Bridge,
    key: &str,
) -> Result<ConversationEntry, ToolRefusal> {
    let entries = bridge.conversations().await?;
    let mut found = entries.iter().filter(|entry| entry.session_key == key);
    found
        .next()
        .map(|entry| ConversationEntry::clone(entry))
        .ok_or_else(|| ToolRefusal::new(format!("Conversation not found: {key}")))
}
