//! The conversations of a tenant, over all platforms, and searching in them. Those of jobs are hidden at first.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{is_there, render};
use crate::{
    Problem,
    api_types::Time,
    console::{frame::Frame, request::PageRequest},
};

const PAGE_SIZE: u32 = 50;
const CRON: &str = "cron";
/// Where conversations usually take place. Others are offered when there are some on the page.
const SOURCES: [&str; 6] = ["telegram", "discord", "slack", "cli", "api_server", CRON];

#[derive(Template)]
#[template(path = "pages/conversations.html")]
struct ConversationsPage {
    page: Frame,
    tenant: String,
    words: String,
    source: String,
    /// Where conversations take place, to choose from.
    sources: Vec<String>,
    shows_cron: bool,
    /// The same with those of jobs, or without them.
    other_cron: String,
    sessions: Vec<Conversation>,
    /// What a search has found.
    matches: Option<Vec<MatchView>>,
    more: Option<String>,
    may_chat: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Conversation {
    id: String,
    source: String,
    title: Option<String>,
    preview: String,
    last_active_at: Time,
    message_count: u64,
    tool_call_count: u64,
}

impl Conversation {
    fn name(&self) -> &str {
        let title = self.title.as_deref().filter(|title| !title.is_empty());
        title
            .or(Some(self.preview.as_str()).filter(|preview| !preview.is_empty()))
            .unwrap_or(&self.id)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MatchView {
    session_id: String,
    title: Option<String>,
    source: String,
    message_id: i64,
    role: String,
    time: Time,
    snippet: String,
}

impl MatchView {
    /// The parts of the text, and whether each is what was searched for.
    fn parts(&self) -> Vec<(bool, &str)> {
        let mut parts = Vec::new();
        let mut rest = self.snippet.as_str();
        while let Some(start) = rest.find(">>>") {
            // The text before may end with such a sign itself.
            let signs = rest[start..].bytes().take_while(|byte| *byte == b'>');
            let (before, after) = rest.split_at(start + signs.count() - 3);
            let after = &after[3..];
            let (found, after) = after.split_once("<<<").unwrap_or((after, ""));
            parts.extend([(false, before), (true, found)]);
            rest = after;
        }
        parts.push((false, rest));
        parts
    }
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let tenant = request.path_value("tenant_id").to_owned();
    let shows_cron = request.query(CRON).is_some() || request.query("source") == Some(CRON);
    let mut arguments = json!({"tenant_id": tenant, "limit": PAGE_SIZE});
    if let Some(cursor) = request.query("cursor") {
        arguments["cursor"] = cursor.into();
    }
    let (mut sessions, mut matches) = (Vec::new(), None);
    if let Some(source) = request.query("source") {
        arguments["source"] = source.into();
    } else if !shows_cron {
        arguments["except_source"] = CRON.into();
    }
    let next = if let Some(words) = request.query("search") {
        arguments["query"] = words.into();
        let (found, next) = search(&request, arguments).await?;
        matches = Some(found);
        next
    } else {
        let (found, next) = list(&request, arguments).await?;
        sessions = found;
        next
    };
    let mut sources: Vec<String> = SOURCES.map(str::to_owned).into();
    let shown = sessions
        .iter()
        .map(|session: &Conversation| session.source.as_str());
    let shown = shown.chain(
        matches
            .iter()
            .flatten()
            .map(|found: &MatchView| found.source.as_str()),
    );
    for source in shown.chain(request.query("source")) {
        if !sources.iter().any(|known| known == source) {
            sources.push(source.to_owned());
        }
    }
    let query = |name| request.query(name).unwrap_or_default().to_owned();
    render(&ConversationsPage {
        page: Frame::new(&request, request.texts.get("tabs.conversations")),
        may_chat: is_there(&request, "/tenants/{tenant_id}/chat"),
        words: query("search"),
        source: query("source"),
        sources,
        shows_cron,
        other_cron: request.address_with(CRON, if shows_cron { "" } else { "1" }),
        sessions,
        matches,
        more: next.map(|cursor| request.address_with("cursor", &cursor)),
        tenant,
    })
}

async fn list(
    request: &PageRequest,
    arguments: Value,
) -> Result<(Vec<Conversation>, Option<String>), Problem> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ConversationsView {
        sessions: Vec<Conversation>,
        next_cursor: Option<String>,
    }
    let list: ConversationsView = request.read("list_sessions", arguments).await?;
    Ok((list.sessions, list.next_cursor))
}

async fn search(
    request: &PageRequest,
    arguments: Value,
) -> Result<(Vec<MatchView>, Option<String>), Problem> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct MatchesView {
        matches: Vec<MatchView>,
        next_cursor: Option<String>,
    }
    let found: MatchesView = request.read("search_sessions", arguments).await?;
    Ok((found.matches, found.next_cursor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_searched_for_is_told_apart() {
        let parts = |snippet: &str| {
            let found = MatchView {
                session_id: "s".into(),
                title: None,
                source: "cli".into(),
                message_id: 1,
                role: "user".into(),
                time: Time::from_millis(0),
                snippet: snippet.into(),
            };
            let parts = found.parts().into_iter();
            parts
                .map(|(is_found, text)| format!("{}{text}", if is_found { "!" } else { "" }))
                .collect::<Vec<_>>()
        };
        assert_eq!(parts("a >>>b<<< c"), ["a ", "!b", " c"]);
        assert_eq!(parts(">>>a<<<>>>b"), ["", "!a", "", "!b", ""]);
        assert_eq!(parts("<b>>>>a<<<</b>"), ["<b>", "!a", "</b>"]);
        assert_eq!(parts("none"), ["none"]);
    }
}
