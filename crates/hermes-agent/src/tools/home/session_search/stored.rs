//! The sessions of a home's store.

use futures::future::BoxFuture;
use hermes_store::{
    MessageId, MessageQuery, MessageRows, Role, SearchOrder, SearchQuery, SessionId, Store,
    StoredMessage, local_iso,
};

use super::{FoundMessage, FoundSession, SessionOrder, SessionQuery, SessionSearch};

/// Longer messages are truncated.
const MAX_MESSAGE_CHARS: usize = 2000;

impl SessionSearch for Store {
    fn search(
        &self,
        query: SessionQuery,
    ) -> BoxFuture<'_, Result<Vec<(FoundSession, FoundMessage)>, String>> {
        Box::pin(async move {
            let search = SearchQuery {
                roles: query.roles.into_iter().map(Role::from).collect(),
                session: query.session.as_deref().map(parse_session_id).transpose()?,
                exclude_session: SessionId::parse(&query.exclude_session).ok(),
                order: match query.order {
                    SessionOrder::Relevance => SearchOrder::Relevance,
                    SessionOrder::Newest => SearchOrder::Newest,
                    SessionOrder::Oldest => SearchOrder::Oldest,
                },
                limit: to_u32(query.limit),
                ..SearchQuery::new(query.text)
            };
            let hits = Store::search(self, &search)
                .await
                .map_err(|error| error.to_string())?;
            let sessions = hits.into_iter().map(|hit| {
                let session = FoundSession {
                    session_id: hit.session.to_string(),
                    title: hit.title,
                    source: hit.source,
                    started: local_iso(hit.session_started),
                };
                let message = FoundMessage {
                    session_id: hit.session.to_string(),
                    message_id: hit.message.0,
                    role: hit.role.as_str().to_owned(),
                    time: local_iso(hit.timestamp),
                    text: hit.snippet,
                };
                (session, message)
            });
            Ok(sessions.collect())
        })
    }

    fn recent<'a>(
        &'a self,
        exclude_session: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundSession>, String>> {
        Box::pin(async move {
            let query = hermes_store::SessionQuery {
                order: hermes_store::SessionOrder::Active,
                limit: to_u32(limit + 1),
                ..hermes_store::SessionQuery::default()
            };
            let listed = self
                .list_sessions(&query)
                .await
                .map_err(|error| error.to_string())?;
            let others = listed
                .into_iter()
                .filter(|summary| summary.session.id.as_str() != exclude_session);
            let sessions = others.take(limit).map(|summary| FoundSession {
                session_id: summary.session.id.to_string(),
                title: summary
                    .session
                    .title
                    .or(Some(summary.preview).filter(|preview| !preview.is_empty())),
                source: summary.session.source,
                started: local_iso(summary.session.started_at),
            });
            Ok(sessions.collect())
        })
    }

    fn messages<'a>(
        &'a self,
        session: &'a str,
        resolve_context: Option<i64>,
        window: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundMessage>, String>> {
        Box::pin(async move {
            let session = parse_session_id(session)?;
            let messages = if let Some(message) = resolve_context {
                let reach = to_u32(window);
                let window = self
                    .messages_around(&session, MessageId(message), reach)
                    .await;
                window.map(|window| window.messages)
            } else {
                let query = MessageQuery {
                    rows: MessageRows::NotRewound,
                    after: Some(MessageId(0)),
                    limit: to_u32(2 * window + 1),
                    ..MessageQuery::default()
                };
                self.read_messages(&session, &query).await
            };
            let messages = messages.map_err(|error| error.to_string())?;
            Ok(messages.iter().map(to_found_message).collect())
        })
    }
}

fn parse_session_id(text: &str) -> Result<SessionId, String> {
    SessionId::parse(text).map_err(|error| error.to_string())
}

fn to_u32(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

fn to_found_message(message: &StoredMessage) -> FoundMessage {
    let text = message
        .body
        .content
        .as_ref()
        .map(|content| content.text())
        .unwrap_or_default();
    let text = match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}… [cut]", &text[..end]),
        None => text.into_owned(),
    };
    FoundMessage {
        session_id: message.session.to_string(),
        message_id: message.id.0,
        role: message.body.role.as_str().to_owned(),
        time: local_iso(message.timestamp),
        text,
    }
}
