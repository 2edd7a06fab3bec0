//! Replies to requests with an idempotency key, so that a repeated request has no second effect.

use std::time::Duration;

use super::RuntimeStore;
use crate::{StoreError, clock::epoch_seconds, db::row};

/// An answer that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReply {
    /// Stands for the request's body: another body under the same key is a mistake.
    pub fingerprint: String,
    pub status: u16,
    pub body: String,
}

impl RuntimeStore {
    /// What was answered under a key.
    pub async fn reply(&self, key: &str) -> Result<Option<StoredReply>, StoreError> {
        let found = sqlx::query("SELECT fingerprint, status, body FROM replies WHERE key = ?1")
            .bind(key)
            .fetch_optional(self.database.readers())
            .await
            .map_err(|error| self.database.error(error))?;
        let read = |found: sqlx::sqlite::SqliteRow| {
            Ok(StoredReply {
                fingerprint: row::required_text(&found, "fingerprint")?,
                status: u16::try_from(row::integer(&found, "status")?).unwrap_or(500),
                body: row::required_text(&found, "body")?,
            })
        };
        found
            .map(read)
            .transpose()
            .map_err(|error| self.database.error(error))
    }

    /// Remembers an answer. The first one under a key stays.
    pub async fn store_reply(&self, key: &str, reply: &StoredReply) -> Result<(), StoreError> {
        let mut write = self.database.begin().await?;
        sqlx::query(
            "INSERT INTO replies (key, fingerprint, status, body, created_at) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT(key) DO NOTHING",
        )
        .bind(key)
        .bind(&reply.fingerprint)
        .bind(reply.status)
        .bind(&reply.body)
        .bind(epoch_seconds())
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        write.commit().await
    }

    /// Forgets answers that were given that long ago.
    pub async fn prune_replies(&self, age: Duration) -> Result<u64, StoreError> {
        let mut write = self.database.begin().await?;
        let done = sqlx::query("DELETE FROM replies WHERE created_at < ?1")
            .bind(epoch_seconds() - age.as_secs_f64())
            .execute(&mut *write)
            .await
            .map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(done.rows_affected())
    }
}
