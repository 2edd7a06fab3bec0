//! `conversations_list` and `conversation_get`.

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    bridge::{
        Bridge,
        arguments::Arguments,
        envelope::{Document, Refusal},
    },
    conversations::Entry,
    platforms::ShownPlatforms,
};

#[derive(Debug, Clone, Copy, Default)]
pub(in crate::bridge) struct Filter<'a> {
    pub(in crate::bridge) platform: Option<&'a str>,
    pub(in crate::bridge) search: Option<&'a str>,
}

pub(super) async fn conversations_list(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<Document, Refusal> {
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
) -> Result<Document, Refusal> {
    let entries = bridge.conversations().await?;
    let found = entries.iter().filter(|entry| filter.matches(entry));
    let conversations: Vec<Row<'_>> = found.take(limit).map(|entry| Row::of(entry)).collect();
    let hint = conversations
        .is_empty()
        .then(|| hint(bridge, filter, entries.len()));
    Ok(Document::indented(&Listed {
        count: conversations.len(),
        conversations,
        hint,
    }))
}

#[derive(Serialize)]
struct Listed<'a> {
    count: usize,
    conversations: Vec<Row<'a>>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Why a list is empty, and how to see more.
fn hint(bridge: &Bridge, filter: Filter<'_>, others: usize) -> String {
    if others > 0 {
        return format!(
            "None of the {others} conversations matches. Leave out `platform` and `search` to see them."
        );
    }
    let shown = bridge.shown();
    if let Some(platform) = filter.platform
        && !shown.has(&platform.to_ascii_lowercase())
    {
        return format!(
            "This bridge does not show `{platform}`. `hermes mcp serve --platforms all`, or `bridge.platforms: all` \
             in config.yaml, shows everything."
        );
    }
    if shown.is_everything() {
        return "This home has no conversations yet.".to_owned();
    }
    let what = if *shown == ShownPlatforms::default() {
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
struct Row<'a> {
    session_key: &'a str,
    session_id: &'a str,
    platform: &'a str,
    chat_type: &'a str,
    display_name: &'a str,
    chat_name: OfOrigin<'a>,
    user_name: OfOrigin<'a>,
    updated_at: &'a str,
}

impl<'a> Row<'a> {
    fn of(entry: &'a Entry) -> Self {
        Self {
            session_key: &entry.session_key,
            session_id: &entry.session_id,
            platform: &entry.platform,
            chat_type: &entry.chat_type,
            display_name: &entry.display_name,
            chat_name: OfOrigin::new(entry, "chat_name"),
            user_name: OfOrigin::new(entry, "user_name"),
            updated_at: &entry.updated_at,
        }
    }
}

/// A value of the origin, which may be null; an empty text if it is missing.
#[derive(Serialize)]
#[serde(untagged)]
enum OfOrigin<'a> {
    Said(&'a Value),
    Nothing(&'static str),
}

impl<'a> OfOrigin<'a> {
    fn new(entry: &'a Entry, name: &str) -> Self {
        let said = entry.origin.get(name);
        said.map_or(Self::Nothing(""), Self::Said)
    }
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

pub(super) async fn conversation_get(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<Document, Refusal> {
    let entry = find(bridge, arguments.text("session_key")).await?;
    Ok(json!({
        "session_key": entry.session_key,
        "session_id": entry.session_id,
        "platform": entry.platform,
        "chat_type": entry.chat_type,
        "display_name": entry.display_name,
        "user_name": OfOrigin::new(&entry, "user_name"),
        "chat_name": OfOrigin::new(&entry, "chat_name"),
        "chat_id": OfOrigin::new(&entry, "chat_id"),
        "thread_id": entry.origin.get("thread_id"),
        "updated_at": entry.updated_at,
        "created_at": entry.created_at,
        "input_tokens": entry.input_tokens,
        "output_tokens": entry.output_tokens,
        "total_tokens": entry.total_tokens,
    })
    .into())
}

pub(in crate::bridge) async fn find(bridge: &Bridge, key: &str) -> Result<Entry, Refusal> {
    let entries = bridge.conversations().await?;
    let mut found = entries.iter().filter(|entry| entry.session_key == key);
    found
        .next()
        .map(|entry| Entry::clone(entry))
        .ok_or_else(|| Refusal::new(format!("Conversation not found: {key}")))
}
