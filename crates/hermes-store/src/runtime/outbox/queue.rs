//! Queuing messages, and the messages that show a growing answer until it is queued.

use serde_json::Value;
use sqlx::{SqliteConnection, sqlite::SqliteRow};

use super::{ChunkStart, NewOutbound, OutboundAction, OutboundChat};
use crate::{StoreError, clock::epoch_seconds, db::row, runtime::RuntimeStore};

/// The most chunks that wait for one chat.
const MAX_QUEUED_PER_CHAT: i64 = 1000;

impl RuntimeStore {
    /// Queues a message. Returns the ids of its chunks, or `None` if one with this key was queued before.
    pub async fn queue_outbound(&self, new: &NewOutbound) -> Result<Option<Vec<i64>>, StoreError> {
        let mut write = self.database.begin_in_group().await?;
        let queued = queue(&mut write, new)
            .await
            .map_err(|error| self.database.error(error))?;
        // Nothing was written if it is not queued; the commit keeps writes of others apart from that.
        write.commit().await?;
        match queued {
            QueueResult::Full => Err(StoreError::OutboxFull {
                chat: new.chat.chat.clone(),
            }),
            QueueResult::Known => Ok(None),
            QueueResult::Queued(ids) => Ok(Some(ids)),
        }
    }

    /// Remembers that a growing answer is shown as this message, the given part of the answer with this key.
    pub async fn record_preview(
        &self,
        chat: &OutboundChat,
        target: &Value,
        dedupe_key: &str,
        part: usize,
        message_id: &str,
    ) -> Result<(), StoreError> {
        let mut write = self.database.begin_in_group().await?;
        // The key is unique, and belongs to the first part.
        sqlx::query(
            "INSERT INTO outbox (platform, account, chat, target, payload, chunk, chunks, state, platform_message_id, \
             dedupe_key, created_at, updated_at, batch) VALUES (?1, ?2, ?3, ?4, 'null', ?5, 0, 'preview', ?6, \
             CASE ?5 WHEN 1 THEN ?7 END, ?8, ?8, (SELECT id FROM outbox WHERE dedupe_key = ?7)) ON CONFLICT DO NOTHING",
        )
        .bind(&chat.platform)
        .bind(&chat.account)
        .bind(&chat.chat)
        .bind(target.to_string())
        .bind(i64::try_from(part).unwrap_or(i64::MAX))
        .bind(message_id)
        .bind(dedupe_key)
        .bind(epoch_seconds())
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        write.commit().await
    }

    /// The messages that show the growing answer with this key, in order.
    pub async fn preview_messages(&self, dedupe_key: &str) -> Result<Vec<String>, StoreError> {
        let found = async {
            let mut reader = self.database.readers().acquire().await?;
            previews(&mut reader, dedupe_key).await
        };
        let found = found.await.map_err(|error| self.database.error(error))?;
        Ok(found.into_iter().map(|(_, message)| message).collect())
    }

    /// Forgets that a growing answer was shown: its messages are gone.
    pub async fn forget_preview(&self, dedupe_key: &str) -> Result<(), StoreError> {
        let mut write = self.database.begin_in_group().await?;
        delete_previews(&mut write, dedupe_key)
            .await
            .map_err(|error| self.database.error(error))?;
        write.commit().await
    }
}

enum QueueResult {
    Queued(Vec<i64>),
    Known,
    Full,
}

async fn queue(
    connection: &mut SqliteConnection,
    new: &NewOutbound,
) -> Result<QueueResult, sqlx::Error> {
    let known: Option<String> =
        sqlx::query_scalar("SELECT state FROM outbox WHERE dedupe_key = ?1")
            .bind(&new.dedupe_key)
            .fetch_optional(&mut *connection)
            .await?;
    let previews = match known.as_deref() {
        None => Vec::new(),
        Some("preview") => previews(connection, &new.dedupe_key).await?,
        Some(_) => return Ok(QueueResult::Known),
    };
    let waiting: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM outbox WHERE state IN ('queued', 'claimed') AND platform = ?1 AND account = ?2 \
         AND chat = ?3",
    )
    .bind(&new.chat.platform)
    .bind(&new.chat.account)
    .bind(&new.chat.chat)
    .fetch_one(&mut *connection)
    .await?;
    let added = i64::try_from(new.chunks.len()).unwrap_or(i64::MAX);
    if waiting.saturating_add(added) > MAX_QUEUED_PER_CHAT {
        return Ok(QueueResult::Full);
    }
    if !previews.is_empty() {
        delete_previews(connection, &new.dedupe_key).await?;
    }
    let mut ids = Vec::with_capacity(new.chunks.len());
    let mut used = Vec::new();
    for (index, chunk) in new.chunks.iter().enumerate() {
        let (state, action, message) = match &chunk.start {
            ChunkStart::Post => match shown_as(&previews, index + 1) {
                Some(message) => ("queued", OutboundAction::Replace, Some(message)),
                None => ("queued", OutboundAction::Post, None),
            },
            ChunkStart::PostAnew => ("queued", OutboundAction::Post, None),
            ChunkStart::Replace { message_id } => {
                ("queued", OutboundAction::Replace, Some(message_id.as_str()))
            }
            ChunkStart::Claimed => match shown_as(&previews, index + 1) {
                Some(message) => ("claimed", OutboundAction::Replace, Some(message)),
                None => ("claimed", OutboundAction::Post, None),
            },
            ChunkStart::Sent { message_id } => {
                ("sent", OutboundAction::Post, Some(message_id.as_str()))
            }
        };
        used.extend(message);
        let row = NewOutboundRow {
            state,
            action,
            message,
            payload: &chunk.payload,
            part: index + 1,
            batch: ids.first().copied(),
        };
        ids.push(row.insert(connection, new).await?);
    }
    for (_, message) in &previews {
        if !used.contains(&message.as_str()) {
            let row = NewOutboundRow {
                state: "queued",
                action: OutboundAction::Delete,
                message: Some(message),
                payload: &Value::Null,
                part: new.chunks.len(),
                batch: ids.first().copied(),
            };
            row.insert(connection, new).await?;
        }
    }
    Ok(QueueResult::Queued(ids))
}

/// The message that already shows this part.
fn shown_as(previews: &[(i64, String)], part: usize) -> Option<&str> {
    let part = i64::try_from(part).ok()?;
    let found = previews.iter().find(|(shown, _)| *shown == part);
    found.map(|(_, message)| message.as_str())
}

struct NewOutboundRow<'a> {
    state: &'static str,
    action: OutboundAction,
    message: Option<&'a str>,
    payload: &'a Value,
    part: usize,
    /// The first row of the message, which has the key.
    batch: Option<i64>,
}

impl NewOutboundRow<'_> {
    async fn insert(
        &self,
        connection: &mut SqliteConnection,
        new: &NewOutbound,
    ) -> Result<i64, sqlx::Error> {
        let payload = match self.state {
            "sent" => &Value::Null,
            _ => self.payload,
        };
        let done = sqlx::query(
            "INSERT INTO outbox (platform, account, chat, target, payload, chunk, chunks, state, action, \
             platform_message_id, dedupe_key, batch, created_at, updated_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )
        .bind(&new.chat.platform)
        .bind(&new.chat.account)
        .bind(&new.chat.chat)
        .bind(new.target.to_string())
        .bind(payload.to_string())
        .bind(i64::try_from(self.part).unwrap_or(i64::MAX))
        .bind(i64::try_from(new.chunks.len()).unwrap_or(i64::MAX))
        .bind(self.state)
        .bind(self.action.as_str())
        .bind(self.message)
        .bind(self.batch.is_none().then_some(&new.dedupe_key))
        .bind(self.batch)
        .bind(new.created_at)
        .bind(epoch_seconds())
        .execute(&mut *connection)
        .await?;
        let id = done.last_insert_rowid();
        if self.batch.is_none() {
            sqlx::query("UPDATE outbox SET batch = ?1 WHERE id = ?1")
                .bind(id)
                .execute(connection)
                .await?;
        }
        Ok(id)
    }
}

/// The parts of a growing answer and the messages that show them.
async fn previews(
    connection: &mut SqliteConnection,
    dedupe_key: &str,
) -> Result<Vec<(i64, String)>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT chunk, platform_message_id FROM outbox WHERE state = 'preview' AND (dedupe_key = ?1 OR batch = \
         (SELECT id FROM outbox WHERE dedupe_key = ?1)) ORDER BY chunk",
    )
    .bind(dedupe_key)
    .fetch_all(connection)
    .await?;
    let read = |found: &SqliteRow| {
        let message = row::required_text(found, "platform_message_id")?;
        Ok((row::integer(found, "chunk")?, message))
    };
    rows.iter().map(read).collect()
}

async fn delete_previews(
    connection: &mut SqliteConnection,
    dedupe_key: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "DELETE FROM outbox WHERE state = 'preview' AND (dedupe_key = ?1 OR batch = \
         (SELECT id FROM outbox WHERE dedupe_key = ?1))",
    )
    .bind(dedupe_key)
    .execute(connection)
    .await?;
    Ok(())
}
