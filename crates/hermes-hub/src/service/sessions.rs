//! Conversations of a tenant, read from its home without waking its agent. Secrets are redacted. Its agent changes them
//! (`change`).

use hermes_config::Redactor;
use hermes_store::{
    MessageId, MessageQuery, MessageRows, SearchQuery, SessionId, SessionOrder, SessionQuery,
    SessionSummary, StoredMessage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) mod change;
mod store;

use self::store::read_store;
use super::page_request;
use crate::{
    Problem, TenantId,
    api_types::{Time, Via},
    service::call::{Call, Reply},
    storage::state::{Page, Paged, StateError},
};

/// Of a message; the rest is left out.
const MAX_TEXT_CHARS: usize = 64 * 1024;

/// Which conversations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListSessions {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Only those that take place there: `api_server`, `cron`, `telegram` and so on.
    source: Option<String>,
    /// Not those that take place there.
    except_source: Option<String>,
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// A conversation whose messages are read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadSession {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The conversation's id.
    session_id: String,
    /// Whether messages are included that were summed up since.
    all: Option<bool>,
    /// Whether the page begins at the end: the newest messages, then older ones.
    newest: Option<bool>,
    /// The first page begins with the message of this id.
    from: Option<i64>,
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// A search in conversations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchSessions {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Words that must all occur; those in double quotes next to each other.
    query: String,
    /// Only this conversation.
    session_id: Option<String>,
    /// Only in conversations that take place there: `api_server`, `cron`, `telegram` and so on.
    source: Option<String>,
    /// Not in those that take place there.
    except_source: Option<String>,
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// A conversation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationSummary {
    id: String,
    /// Where it takes place.
    source: String,
    title: Option<String>,
    /// The beginning of its first message.
    preview: String,
    model: Option<String>,
    started_at: Time,
    last_active_at: Time,
    ended_at: Option<Time>,
    message_count: i64,
    tool_call_count: i64,
    input_tokens: i64,
    output_tokens: i64,
}

/// Conversations, the last used first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationList {
    sessions: Vec<ConversationSummary>,
    next_cursor: Option<String>,
}

/// A message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationMessage {
    id: i64,
    /// `user`, `assistant`, `tool` or `system`.
    role: String,
    time: Time,
    /// Its words.
    text: String,
    /// Whether the end of the text was left out.
    truncated: bool,
    /// The tool whose result it is.
    tool_name: Option<String>,
    /// The call whose result it is.
    tool_call_id: Option<String>,
    /// The tools that the agent called in it, as the agent stores them.
    tool_calls: Value,
}

/// Messages of a conversation, in order.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationMessages {
    session_id: String,
    title: Option<String>,
    /// Where it takes place.
    source: String,
    started_at: Time,
    messages: Vec<ConversationMessage>,
    next_cursor: Option<String>,
}

/// A message that was found.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationMatch {
    session_id: String,
    title: Option<String>,
    source: String,
    message_id: i64,
    role: String,
    time: Time,
    /// Where it matches, with `>>>` and `<<<` around the words.
    snippet: String,
    tool_name: Option<String>,
}

/// What a search found, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationMatches {
    matches: Vec<ConversationMatch>,
    next_cursor: Option<String>,
}

pub(crate) async fn list(call: Call, input: ListSessions) -> Result<Reply, Problem> {
    let (page, offset) = offset_page(&call, input.limit, input.cursor)?;
    let query = SessionQuery {
        sources: input.source.into_iter().collect(),
        excluded_sources: input.except_source.into_iter().collect(),
        order: SessionOrder::Active,
        limit: fetch_limit(&page),
        offset,
        ..SessionQuery::default()
    };
    let found = read_store(&call, |store| {
        let query = query.clone();
        async move { store.list_sessions(&query).await }
    })
    .await?;
    let redactor = tenant_redactor(&call).await?;
    let found = next_offset(found.unwrap_or_default(), &page, offset);
    Reply::json(&ConversationList {
        sessions: found
            .items
            .into_iter()
            .map(|summary| show_session(summary, &redactor))
            .collect(),
        next_cursor: found.next,
    })
}

pub(crate) async fn messages(call: Call, input: ReadSession) -> Result<Reply, Problem> {
    let session = SessionId::parse(&input.session_id)
        .map_err(|_| Problem::invalid("that is not the id of a conversation"))?;
    let page = page_request(input.limit, input.cursor)?;
    let from_end = input.newest == Some(true);
    let last = match page.cursor_key::<1>().map_err(Problem::from)? {
        Some([last]) => Some(MessageId(last.parse().map_err(|_| StateError::BadCursor)?)),
        None => None,
    };
    let query = MessageQuery {
        rows: if input.all == Some(true) {
            MessageRows::NotRewound
        } else {
            MessageRows::Active
        },
        before: last.filter(|_| from_end),
        after: (!from_end)
            .then(|| last.unwrap_or(MessageId(input.from.map_or(0, |id| id.saturating_sub(1))))),
        limit: fetch_limit(&page),
        ..MessageQuery::default()
    };
    let read = read_store(&call, |store| {
        let (session, query) = (session.clone(), query.clone());
        async move {
            let Some(found) = store.session(&session).await? else {
                return Ok(None);
            };
            let messages = store.read_messages(&session, &query).await?;
            Ok(Some((found, messages)))
        }
    });
    let found = read.await?.flatten();
    let (conversation, found) =
        found.ok_or_else(|| Problem::not_found(format!("there is no conversation `{session}`")))?;
    let redactor = tenant_redactor(&call).await?;
    let found = page_of_messages(found, &page, from_end);
    Reply::json(&ConversationMessages {
        session_id: session.to_string(),
        title: conversation.title.map(|title| redact(&redactor, &title)),
        source: conversation.source,
        started_at: time(conversation.started_at),
        messages: found
            .items
            .into_iter()
            .map(|message| show_message(message, &redactor))
            .collect(),
        next_cursor: found.next,
    })
}

pub(crate) async fn search(call: Call, input: SearchSessions) -> Result<Reply, Problem> {
    if input.query.trim().is_empty() || input.query.len() > 1024 {
        return Err(Problem::invalid("`query` has 1 to 1024 bytes").with_detail("query", "length"));
    }
    let session = input.session_id.as_deref().map(SessionId::parse);
    let session = session
        .transpose()
        .map_err(|_| Problem::invalid("that is not the id of a conversation"))?;
    let (page, offset) = offset_page(&call, input.limit, input.cursor)?;
    let query = SearchQuery {
        session,
        sources: input.source.into_iter().collect(),
        excluded_sources: input.except_source.into_iter().collect(),
        limit: fetch_limit(&page),
        offset,
        ..SearchQuery::new(input.query)
    };
    let _permit = call.hub.files().searches.acquire(&call.principal().token)?;
    let found = read_store(&call, |store| {
        let query = query.clone();
        async move { store.search(&query).await }
    })
    .await?;
    let redactor = tenant_redactor(&call).await?;
    let found = next_offset(found.unwrap_or_default(), &page, offset);
    let matches = found.items.into_iter().map(|hit| ConversationMatch {
        session_id: hit.session.to_string(),
        title: hit.title.map(|title| redact(&redactor, &title)),
        source: hit.source,
        message_id: hit.message.0,
        role: hit.role.as_str().to_owned(),
        time: time(hit.timestamp),
        snippet: redact(&redactor, &hit.snippet),
        tool_name: hit.tool_name,
    });
    Reply::json(&ConversationMatches {
        matches: matches.collect(),
        next_cursor: found.next,
    })
}

/// In order, whichever end the pages begin at.
fn page_of_messages(
    mut found: Vec<StoredMessage>,
    page: &Page,
    from_end: bool,
) -> Paged<StoredMessage> {
    if from_end {
        found.reverse();
    }
    let mut paged = Paged::from_fetched(found, page, |message| [message.id.to_string()]);
    if from_end {
        paged.items.reverse();
    }
    paged
}

/// One more than requested, to know whether there are more.
fn fetch_limit(page: &Page) -> u32 {
    page.limit.clamp(1, 500) + 1
}

/// A page of a list that is read by offsets.
fn offset_page(
    call: &Call,
    limit: Option<u32>,
    cursor: Option<String>,
) -> Result<(Page, u32), Problem> {
    let default = if call.via == Via::Mcp { 50 } else { 100 };
    let page = page_request(limit.or(Some(default)), cursor)?;
    let offset = match page.cursor_key::<1>().map_err(Problem::from)? {
        Some([offset]) => offset.parse().map_err(|_| StateError::BadCursor)?,
        None => 0,
    };
    Ok((page, offset))
}

fn next_offset<T>(found: Vec<T>, page: &Page, offset: u32) -> Paged<T> {
    let next = offset.saturating_add(page.limit);
    Paged::from_fetched(found, page, |_| [next.to_string()])
}

/// Knows the tenant's secrets.
pub(super) async fn tenant_redactor(call: &Call) -> Result<Redactor, Problem> {
    let lookup = call.hub.agents().tenant_lookup();
    let spec = lookup.agent_spec(call.tenant_id()?).await?;
    let secrets = spec.launch.env.values().cloned();
    Ok(Redactor::new(
        secrets.chain([spec.launch.runtime_key.clone()]),
    ))
}

fn redact(redactor: &Redactor, text: &str) -> String {
    redactor.redact(text).into_owned()
}

pub(super) fn redact_value(redactor: &Redactor, value: &mut Value) {
    match value {
        Value::String(text) => *text = redact(redactor, text),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| redact_value(redactor, item)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| redact_value(redactor, member)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a cast of floats saturates"
)]
fn time(seconds: f64) -> Time {
    Time::from_millis((seconds * 1000.0) as i64)
}

fn show_session(summary: SessionSummary, redactor: &Redactor) -> ConversationSummary {
    let session = summary.session;
    ConversationSummary {
        id: session.id.to_string(),
        source: session.source,
        title: session.title.map(|title| redact(redactor, &title)),
        preview: redact(redactor, &summary.preview),
        model: session.model,
        started_at: time(session.started_at),
        last_active_at: time(summary.last_active),
        ended_at: session.ended_at.map(time),
        message_count: session.message_count,
        tool_call_count: session.tool_call_count,
        input_tokens: session.usage.input_tokens,
        output_tokens: session.usage.output_tokens,
    }
}

fn show_message(message: StoredMessage, redactor: &Redactor) -> ConversationMessage {
    let text = message.body.content.as_ref().map(|content| content.text());
    let text = redact(redactor, text.as_deref().unwrap_or_default());
    let end = text.char_indices().nth(MAX_TEXT_CHARS);
    let mut tool_calls = message.body.tool_calls.unwrap_or_default();
    redact_value(redactor, &mut tool_calls);
    ConversationMessage {
        id: message.id.0,
        role: message.body.role.as_str().to_owned(),
        time: time(message.timestamp),
        truncated: end.is_some(),
        text: match end {
            Some((end, _)) => text[..end].to_owned(),
            None => text,
        },
        tool_name: message.body.tool_name,
        tool_call_id: message.body.tool_call_id,
        tool_calls,
    }
}
