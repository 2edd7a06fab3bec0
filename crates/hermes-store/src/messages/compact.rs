//! Compaction in place: the live messages step back and a shorter list takes their place, under the same session.
//! A lease in the database keeps two processes from doing that to one session at once.

use std::time::Duration;

use sqlx::sqlite::SqliteRow;

use super::{NewMessage, StoredMessage, insert_messages, message_columns};
use crate::{MessageId, SessionId, Store, StoreError, clock::epoch_seconds, db::row};

/// A summary that could not be had: until when none is tried again, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionFailure {
    /// Seconds since 1970.
    pub until: f64,
    pub error: String,
    /// How many failed in a row.
    pub streak: i64,
}

impl Store {
    /// The last failure of a session's compaction, if none has succeeded since.
    pub async fn compaction_failure(
        &self,
        session: &SessionId,
    ) -> Result<Option<CompactionFailure>, StoreError> {
        const SQL: &str = "SELECT s.compression_failure_cooldown_until AS until, s.compression_failure_error AS error, \
             s.compression_fallback_streak AS streak FROM {sessions} AS s WHERE s.id = ?1";
        let found = sqlx::query(self.sql(SQL))
            .bind(session.as_str())
            .fetch_optional(self.readers())
            .await
            .map_err(|error| self.error(error))?;
        let read = |found: &SqliteRow| {
            let until = row::real(found, "until")?;
            let (error, streak) = (row::text(found, "error")?, row::integer(found, "streak")?);
            Ok(until.map(|until| CompactionFailure {
                until,
                error: error.unwrap_or_default(),
                streak,
            }))
        };
        let failure = found.as_ref().map(read).transpose();
        failure
            .map(Option::flatten)
            .map_err(|error: sqlx::Error| self.error(error))
    }

    /// Remembers a failed compaction; `None` once one has succeeded.
    pub async fn set_compaction_failure(
        &self,
        session: &SessionId,
        failure: Option<&CompactionFailure>,
    ) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        sqlx::query(
            "UPDATE sessions SET compression_failure_cooldown_until = ?2, compression_failure_error = ?3, \
             compression_fallback_streak = ?4 WHERE id = ?1",
        )
        .bind(session.as_str())
        .bind(failure.map(|failure| failure.until))
        .bind(failure.map(|failure| failure.error.as_str()))
        .bind(failure.map_or(0, |failure| failure.streak))
        .execute(&mut *write)
        .await
        .map_err(|error| self.error(error))?;
        write.commit().await
    }

    /// Tries to become the one who compacts a session, for as long as the lease runs. Returns whether it worked; the
    /// holder who has the lease already gets it again.
    pub async fn lock_compaction(
        &self,
        session: &SessionId,
        holder: &str,
        lease: Duration,
    ) -> Result<bool, StoreError> {
        let now = epoch_seconds();
        let mut write = self.begin().await?;
        let done = sqlx::query(
            "INSERT INTO compression_locks (session_id, holder, acquired_at, expires_at) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT(session_id) DO UPDATE SET holder = excluded.holder, acquired_at = excluded.acquired_at, \
             expires_at = excluded.expires_at \
             WHERE compression_locks.holder = excluded.holder OR compression_locks.expires_at < excluded.acquired_at",
        )
        .bind(session.as_str())
        .bind(holder)
        .bind(now)
        .bind(now + lease.as_secs_f64())
        .execute(&mut *write)
        .await
        .map_err(|error| self.error(error))?;
        write.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Gives the lease back, if this holder has it.
    pub async fn unlock_compaction(
        &self,
        session: &SessionId,
        holder: &str,
    ) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        sqlx::query("DELETE FROM compression_locks WHERE session_id = ?1 AND holder = ?2")
            .bind(session.as_str())
            .bind(holder)
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(error))?;
        write.commit().await
    }

    /// Puts `messages` in the place of the live ones up to `through`, the last that was summed up. What arrived
    /// since stays live, after them. The holder must have the lease. Returns the new ids.
    pub async fn compact(
        &self,
        session: &SessionId,
        holder: &str,
        through: MessageId,
        messages: &[NewMessage],
    ) -> Result<Vec<MessageId>, StoreError> {
        const LATER: &str = concat!(
            "SELECT ",
            message_columns!(),
            " FROM messages AS m WHERE m.session_id = ?1 AND m.active = 1 AND m.id > ?2 ORDER BY m.id"
        );
        let mut write = self.begin().await?;
        let locked: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM compression_locks \
             WHERE session_id = ?1 AND holder = ?2 AND expires_at >= ?3)",
        )
        .bind(session.as_str())
        .bind(holder)
        .bind(epoch_seconds())
        .fetch_one(&mut *write)
        .await
        .map_err(|error| self.error(error))?;
        if !locked {
            return Err(StoreError::CompactionNotLocked {
                id: session.clone(),
            });
        }
        let later = sqlx::query(LATER)
            .bind(session.as_str())
            .bind(through.0)
            .fetch_all(&mut *write)
            .await;
        let mut live = messages.to_vec();
        live.extend(
            self.messages(later)?
                .into_iter()
                .map(|message: StoredMessage| message.body),
        );
        sqlx::query(
            "UPDATE messages SET active = 0, compacted = 1 WHERE session_id = ?1 AND active = 1",
        )
        .bind(session.as_str())
        .execute(&mut *write)
        .await
        .map_err(|error| self.error(error))?;
        let ids = insert_messages(&mut write, session, &live)
            .await
            .map_err(|error| self.append_error(session, error))?;
        let calls: i64 = live.iter().map(NewMessage::tool_call_count).sum();
        sqlx::query("UPDATE sessions SET message_count = ?2, tool_call_count = ?3 WHERE id = ?1")
            .bind(session.as_str())
            .bind(i64::try_from(live.len()).unwrap_or(i64::MAX))
            .bind(calls)
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(error))?;
        write.commit().await?;
        Ok(ids)
    }
}
