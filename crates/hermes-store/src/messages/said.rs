//! What people and the model have said in a session: the newest of it, and how much there is. Messages without a text,
//! as those that only call tools, are not among it.

use std::collections::HashSet;

use sqlx::sqlite::SqliteRow;

use super::{Content, Role};
use crate::{MessageId, SessionId, Store, StoreError, db::row};

/// The end of what was said in a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The newest messages, in order.
    pub messages: Vec<SaidMessage>,
    /// How many there are in the session.
    pub total: usize,
}

/// What somebody said.
#[derive(Debug, Clone, PartialEq)]
pub struct SaidMessage {
    /// Its row.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// Never empty.
    pub text: String,
    /// Seconds since 1970.
    pub timestamp: f64,
}

/// A message that may have been said.
struct Candidate {
    id: i64,
    /// It may be made of parts; those may have no text.
    is_structured: bool,
}

impl Store {
    /// The newest messages of people and the model that the model sees and that have a text.
    pub async fn said(&self, session: &SessionId, limit: usize) -> Result<Said, StoreError> {
        let said = async {
            let mut ids = self.ids_of_said(session).await?;
            let total = ids.len();
            ids.drain(..total.saturating_sub(limit));
            let messages = self.said_messages(&ids).await?;
            Ok(Said { messages, total })
        };
        said.await.map_err(|error| self.error(error))
    }

    /// All ids in order.
    async fn ids_of_said(&self, session: &SessionId) -> Result<Vec<i64>, sqlx::Error> {
        let candidates = self.candidates(session).await?;
        let structured = candidates
            .iter()
            .filter(|candidate| candidate.is_structured);
        let structured: Vec<i64> = structured.map(|candidate| candidate.id).collect();
        let mut with_text = HashSet::new();
        if !structured.is_empty() {
            let messages = self.said_messages(&structured).await?;
            with_text.extend(messages.into_iter().map(|message| message.id.0));
        }
        let has_text =
            |candidate: &Candidate| !candidate.is_structured || with_text.contains(&candidate.id);
        let said = candidates.into_iter().filter(has_text);
        let mut ids: Vec<i64> = said.map(|candidate| candidate.id).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    async fn candidates(&self, session: &SessionId) -> Result<Vec<Candidate>, sqlx::Error> {
        // All in one row, since a row costs more than what is in it. An id is negative where the text begins with
        // NUL, as that of parts does.
        const SQL: &str = "SELECT group_concat(CASE WHEN m.content < char(1) THEN -m.id ELSE m.id END) AS ids \
             FROM {messages} AS m WHERE m.session_id = ?1 AND m.active = 1 \
             AND m.role IN ('user', 'assistant') AND m.content != ''";
        let found = sqlx::query(self.sql(SQL))
            .bind(session.as_str())
            .fetch_one(self.readers())
            .await?;
        let ids = row::required(&found, "ids")?;
        let ids = ids.split(',').filter_map(|id| id.parse().ok());
        Ok(ids
            .map(|id: i64| Candidate {
                id: id.abs(),
                is_structured: id < 0,
            })
            .collect())
    }

    /// Those of these rows that have a text, in order.
    async fn said_messages(&self, ids: &[i64]) -> Result<Vec<SaidMessage>, sqlx::Error> {
        const SQL: &str = "SELECT m.id, m.role, m.content, m.timestamp FROM {messages} AS m \
             WHERE m.id IN (SELECT value FROM json_each(?1)) ORDER BY m.id";
        let rows = sqlx::query(self.sql(SQL))
            .bind(serde_json::json!(ids).to_string())
            .fetch_all(self.readers())
            .await?;
        let mut messages = Vec::with_capacity(rows.len());
        for found in &rows {
            let message = SaidMessage::read(found)?;
            if !message.text.is_empty() {
                messages.push(message);
            }
        }
        Ok(messages)
    }
}

impl SaidMessage {
    fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        let content = Content::decode(row::required(found, "content")?);
        Ok(Self {
            id: MessageId(row::integer(found, "id")?),
            role: row::required(found, "role")?.into(),
            text: match content {
                Content::Text(text) => text,
                parts @ Content::Parts(_) => parts.text().into_owned(),
            },
            timestamp: row::real(found, "timestamp")?.unwrap_or_default(),
        })
    }
}
