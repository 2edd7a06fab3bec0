//! Messages to platforms, kept until they are there.
//!
//! A message is a batch of chunks, one row each. `queued` → `sent` or `failed`. The messages of a chat are sent in the
//! order of their ids. A chunk may take the place of a message that already shows a growing answer; which one that is, is
//! stored before (`preview`), so that it is not posted a second time after a crash.

use std::time::Duration;

use serde_json::Value;
use sqlx::sqlite::SqliteRow;

use super::RuntimeStore;
use crate::{StoreError, clock::epoch_seconds, db::row};

mod queue;

/// The chat that a message goes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutboundChat {
    pub platform: String,
    /// Empty for the first account of a platform.
    pub account: String,
    /// The platform's id of the chat. Messages to its threads stay in one order with it.
    pub chat: String,
}

/// A message to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct NewOutbound {
    pub chat: OutboundChat,
    /// The address in full; its member `id` is the chat's id.
    pub target: Value,
    pub chunks: Vec<NewOutboundChunk>,
    /// The same for the same message: it is queued once.
    pub dedupe_key: String,
    /// When it was written, in seconds since 1970.
    pub created_at: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewOutboundChunk {
    pub payload: Value,
    pub start: ChunkStart,
}

/// What has happened to a chunk before it is queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkStart {
    /// It is posted, or replaces the preview that is stored for it.
    Post,
    /// It is posted, and replaces nothing.
    PostAnew,
    /// It replaces the text of this message.
    Replace { message_id: String },
    /// The caller turns a growing answer into it, and then tells.
    Claimed,
    /// It is there, as this message.
    Sent { message_id: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboundAction {
    Post,
    /// Replace the text of the message.
    Replace,
    /// Delete the message: no part of the answer takes its place.
    Delete,
}

impl OutboundAction {
    fn as_str(self) -> &'static str {
        match self {
            Self::Post => "post",
            Self::Replace => "replace",
            Self::Delete => "delete",
        }
    }

    fn parse(word: &str) -> Self {
        [Self::Replace, Self::Delete]
            .into_iter()
            .find(|action| action.as_str() == word)
            .unwrap_or(Self::Post)
    }
}

/// A chunk that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboundRow {
    pub id: i64,
    pub chat: OutboundChat,
    pub target: Value,
    pub payload: Value,
    /// From 1.
    pub chunk: i64,
    pub chunks: i64,
    pub action: OutboundAction,
    /// The message that is replaced or deleted.
    pub message_id: Option<String>,
    /// Whether the caller that queued it is about to send it.
    pub is_claimed: bool,
    /// How often sending failed.
    pub attempts: i64,
    /// When it may be tried again, in seconds since 1970.
    pub next_at: Option<f64>,
    /// When the message was written, in seconds since 1970.
    pub created_at: f64,
    /// When the row was changed last, in seconds since 1970.
    pub updated_at: f64,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundState {
    pub chunks: usize,
    pub sent: usize,
    pub failed: usize,
    /// The platform's ids of the chunks that were sent, in order.
    pub message_ids: Vec<String>,
    pub last_error: Option<String>,
}

impl OutboundState {
    /// Whether all of it is there.
    pub fn is_delivered(&self) -> bool {
        self.sent == self.chunks
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OutboundCounts {
    pub queued: i64,
    pub failed: i64,
    /// Since when the oldest waits, in seconds since 1970.
    pub oldest_queued_at: Option<f64>,
}

const SELECT_OUTBOUND: &str = "SELECT id, platform, account, chat, target, payload, chunk, chunks, state, attempts, next_at, \
     platform_message_id, action, created_at, updated_at FROM outbox";

impl OutboundRow {
    fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row::integer(found, "id")?,
            chat: OutboundChat {
                platform: row::required_text(found, "platform")?,
                account: row::required_text(found, "account")?,
                chat: row::required_text(found, "chat")?,
            },
            target: row::json(found, "target")?.unwrap_or_default(),
            payload: row::json(found, "payload")?.unwrap_or_default(),
            chunk: row::integer(found, "chunk")?,
            chunks: row::integer(found, "chunks")?,
            action: OutboundAction::parse(&row::required_text(found, "action")?),
            message_id: row::text(found, "platform_message_id")?,
            is_claimed: row::required_text(found, "state")? == "claimed",
            attempts: row::integer(found, "attempts")?,
            next_at: row::real(found, "next_at")?,
            created_at: row::real(found, "created_at")?.unwrap_or_default(),
            updated_at: row::real(found, "updated_at")?.unwrap_or_default(),
        })
    }

    /// How long it has to wait before it is tried again. Never longer than it was told to, whatever was done to the clock.
    pub fn remaining_wait(&self, now: f64) -> Duration {
        let left = self.next_at.unwrap_or_default() - now.max(self.updated_at);
        Duration::try_from_secs_f64(left).unwrap_or_default()
    }
}

impl RuntimeStore {
    /// The first waiting chunk of each chat that may be sent now, oldest first.
    pub async fn due_outbound(&self, now: f64, limit: u32) -> Result<Vec<OutboundRow>, StoreError> {
        // What was changed later than now was changed before the clock was set back: its times say nothing.
        let sql = format!(
            "{SELECT_OUTBOUND} WHERE id IN (SELECT MIN(id) FROM outbox WHERE state IN ('queued', 'claimed') \
             GROUP BY platform, account, chat) AND state = 'queued' \
             AND (next_at IS NULL OR next_at <= ?1 OR updated_at > ?1) ORDER BY id LIMIT ?2"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(now)
            .bind(limit)
            .fetch_all(self.database.readers())
            .await;
        rows.and_then(|rows| rows.iter().map(OutboundRow::read).collect())
            .map_err(|error| self.database.error(error))
    }

    /// The id of the chunk that was queued last; 0 if there is none.
    pub async fn last_outbound(&self) -> Result<i64, StoreError> {
        sqlx::query_scalar("SELECT COALESCE(MAX(id), 0) FROM outbox")
            .fetch_one(self.database.readers())
            .await
            .map_err(|error| self.database.error(error))
    }

    /// The first waiting chunk of a chat, due or not.
    pub async fn next_outbound(
        &self,
        chat: &OutboundChat,
    ) -> Result<Option<OutboundRow>, StoreError> {
        let sql = format!(
            "{SELECT_OUTBOUND} WHERE state IN ('queued', 'claimed') AND platform = ?1 AND account = ?2 AND chat = ?3 \
             ORDER BY id LIMIT 1"
        );
        let found = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(&chat.platform)
            .bind(&chat.account)
            .bind(&chat.chat)
            .fetch_optional(self.database.readers())
            .await;
        found
            .and_then(|found| found.as_ref().map(OutboundRow::read).transpose())
            .map_err(|error| self.database.error(error))
    }

    /// The chunk is there, as this message. Its text is not needed any more.
    pub async fn mark_sent(&self, id: i64, message_id: &str) -> Result<(), StoreError> {
        self.change_outbound(
            "UPDATE outbox SET state = 'sent', payload = 'null', platform_message_id = ?2, next_at = NULL, \
             updated_at = ?3 WHERE id = ?1",
            id,
            Some(message_id),
        )
        .await?;
        self.database.run_deferred_checkpoint().await;
        Ok(())
    }

    /// Sending failed at that time, in seconds since 1970; after the wait it may be tried again.
    pub async fn retry_outbound(
        &self,
        id: i64,
        failed_at: f64,
        wait: Duration,
        error: &str,
    ) -> Result<(), StoreError> {
        let changed = self.database.execute(|| {
            sqlx::query(
                "UPDATE outbox SET attempts = attempts + 1, last_error = ?2, updated_at = ?3, next_at = ?4 \
                 WHERE id = ?1",
            )
            .bind(id)
            .bind(error)
            .bind(failed_at)
            .bind(failed_at + wait.as_secs_f64())
        });
        changed.await.map(drop)
    }

    /// It cannot be sent, and neither are the chunks of the same message that wait behind it.
    pub async fn fail_outbound(&self, id: i64, error: &str) -> Result<(), StoreError> {
        self.change_outbound(
            "UPDATE outbox SET state = 'failed', payload = 'null', last_error = ?2, updated_at = ?3 \
             WHERE batch = (SELECT batch FROM outbox WHERE id = ?1) AND id >= ?1 \
             AND state IN ('queued', 'claimed')",
            id,
            Some(error),
        )
        .await
    }

    /// A claimed chunk did not become a message: it is posted like any other.
    pub async fn release_outbound(&self, id: i64) -> Result<(), StoreError> {
        self.change_outbound(
            "UPDATE outbox SET state = 'queued', updated_at = ?3 \
             WHERE id = ?1 AND state = 'claimed' AND ?2 IS NULL",
            id,
            None,
        )
        .await
    }

    /// Releases claimed chunks, but for those of messages with these keys: whoever claimed the others is gone.
    pub async fn release_claimed_outbound(&self, held: &[String]) -> Result<u64, StoreError> {
        let held = serde_json::to_string(held).unwrap_or_default();
        let mut write = self.database.begin().await?;
        let sql = "UPDATE outbox SET state = 'queued' WHERE state = 'claimed' AND batch NOT IN \
             (SELECT id FROM outbox WHERE dedupe_key IN (SELECT value FROM json_each(?1)))";
        let done = sqlx::query(sql)
            .bind(held)
            .execute(&mut *write)
            .await
            .map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(done.rows_affected())
    }

    async fn change_outbound(
        &self,
        sql: &'static str,
        id: i64,
        text: Option<&str>,
    ) -> Result<(), StoreError> {
        let now = epoch_seconds();
        let changed = self
            .database
            .execute(|| sqlx::query(sql).bind(id).bind(text).bind(now));
        changed.await.map(drop)
    }

    /// What became of the message with this key; `None` if it was never queued.
    pub async fn outbound_state(
        &self,
        dedupe_key: &str,
    ) -> Result<Option<OutboundState>, StoreError> {
        let rows = sqlx::query(
            "SELECT state, action, platform_message_id, last_error FROM outbox WHERE batch = \
             (SELECT id FROM outbox WHERE dedupe_key = ?1 AND state <> 'preview') ORDER BY id",
        )
        .bind(dedupe_key)
        .fetch_all(self.database.readers())
        .await
        .map_err(|error| self.database.error(error))?;
        if rows.is_empty() {
            return Ok(None);
        }
        let mut state = OutboundState {
            chunks: 0,
            sent: 0,
            failed: 0,
            message_ids: Vec::new(),
            last_error: None,
        };
        let counted = rows.iter().try_for_each(|found| {
            if row::required_text(found, "action")? == OutboundAction::Delete.as_str() {
                return Ok(());
            }
            state.chunks += 1;
            if let Some(error) = row::text(found, "last_error")? {
                state.last_error = Some(error);
            }
            match row::required_text(found, "state")?.as_str() {
                "sent" => {
                    state.sent += 1;
                    let id = row::text(found, "platform_message_id")?;
                    state.message_ids.extend(id);
                }
                "failed" => state.failed += 1,
                _ => {}
            }
            Ok(())
        });
        counted.map_err(|error| self.database.error(error))?;
        Ok(Some(state))
    }

    /// Forgets messages that were sent or failed that long ago, and previews that never became an answer.
    pub async fn prune_outbound(&self, age: Duration) -> Result<u64, StoreError> {
        let mut write = self.database.begin().await?;
        // A message goes as a whole, so that what is known of it stays true.
        let done = sqlx::query(
            "DELETE FROM outbox WHERE state NOT IN ('queued', 'claimed') AND updated_at < ?1 AND (batch IS NULL \
             OR batch NOT IN (SELECT batch FROM outbox WHERE state IN ('queued', 'claimed') AND batch IS NOT NULL))",
        )
        .bind(epoch_seconds() - age.as_secs_f64())
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(done.rows_affected())
    }

    pub async fn outbound_counts(&self) -> Result<OutboundCounts, StoreError> {
        let counted = async {
            let found = sqlx::query(
                "SELECT COALESCE(SUM(state <> 'failed'), 0) AS queued, COALESCE(SUM(state = 'failed'), 0) AS failed, \
                 MIN(CASE WHEN state <> 'failed' THEN created_at END) AS oldest \
                 FROM outbox WHERE state IN ('queued', 'claimed', 'failed')",
            )
            .fetch_one(self.database.readers())
            .await?;
            Ok(OutboundCounts {
                queued: row::integer(&found, "queued")?,
                failed: row::integer(&found, "failed")?,
                oldest_queued_at: row::real(&found, "oldest")?,
            })
        };
        counted.await.map_err(|error| self.database.error(error))
    }
}
