//! Idempotency keys in SQLite.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::{Affected, SqliteState, commit};
use crate::{
    api_types::Time,
    storage::state::{
        IdempotencyKey, IdempotencyStore, KeyClaim, StateError, StoredReply, columns::ColumnReader,
        records::KeyProgress,
    },
};

const KEY_RETENTION: Duration = Duration::from_hours(24);

/// Sets the progress of a request, which never goes back.
pub(super) async fn mark_progress(
    write: &mut SqliteConnection,
    key: &IdempotencyKey,
    progress: KeyProgress,
) -> Result<(), StateError> {
    sqlx::query(
        "UPDATE idempotency SET state = ?4 WHERE token = ?1 AND route = ?2 AND key = ?3
             AND state IN ('running', 'begun')",
    )
    .bind(&key.token)
    .bind(&key.route)
    .bind(&key.key)
    .bind(progress.as_str())
    .execute(write)
    .await?;
    Ok(())
}

#[async_trait]
impl IdempotencyStore for SqliteState {
    async fn claim_key(
        &self,
        key: &IdempotencyKey,
        body_sha256: &[u8; 32],
    ) -> Result<KeyClaim, StateError> {
        let now = Time::now();
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query(
            "DELETE FROM idempotency WHERE token = ?1 AND route = ?2 AND key = ?3 AND created_at < ?4",
        )
        .bind(&key.token)
        .bind(&key.route)
        .bind(&key.key)
        .bind(now.before(KEY_RETENTION).millis())
        .execute(&mut *write)
        .await?;
        let row = sqlx::query(
            "SELECT body, state, node, status, reply FROM idempotency
             WHERE token = ?1 AND route = ?2 AND key = ?3",
        )
        .bind(&key.token)
        .bind(&key.route)
        .bind(&key.key)
        .fetch_optional(&mut *write)
        .await?;
        if let Some(row) = row {
            if row.bytes("body")? != body_sha256 {
                return Ok(KeyClaim::BodyMismatch);
            }
            return Ok(match row.text("state")?.as_str() {
                "answered" => KeyClaim::Replay(StoredReply {
                    status: u16::try_from(row.count("status")?).map_err(StateError::broken)?,
                    body: row.bytes("reply")?,
                }),
                "lost" => KeyClaim::ReplyLost,
                _ => KeyClaim::Running,
            });
        }
        sqlx::query(
            "INSERT INTO idempotency (token, route, key, body, state, node, created_at)
             VALUES (?1, ?2, ?3, ?4, 'running', ?5, ?6)",
        )
        .bind(&key.token)
        .bind(&key.route)
        .bind(&key.key)
        .bind(body_sha256.as_slice())
        .bind(&self.node)
        .bind(now.millis())
        .execute(&mut *write)
        .await?;
        commit(write).await?;
        Ok(KeyClaim::First)
    }

    async fn finish_key(&self, key: &IdempotencyKey, reply: StoredReply) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query(
            "UPDATE idempotency SET state = 'answered', status = ?4, reply = ?5
             WHERE token = ?1 AND route = ?2 AND key = ?3",
        )
        .bind(&key.token)
        .bind(&key.route)
        .bind(&key.key)
        .bind(i64::from(reply.status))
        .bind(reply.body)
        .execute(&mut *write)
        .await?;
        commit(write).await
    }

    async fn release_key(&self, key: &IdempotencyKey) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query(
            "DELETE FROM idempotency WHERE token = ?1 AND route = ?2 AND key = ?3
                 AND state IN ('running', 'begun')",
        )
        .bind(&key.token)
        .bind(&key.route)
        .bind(&key.key)
        .execute(&mut *write)
        .await?;
        commit(write).await
    }

    async fn release_interrupted_keys(&self) -> Result<u64, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let released = sqlx::query("DELETE FROM idempotency WHERE node = ?1 AND state = 'running'")
            .bind(&self.node)
            .execute(&mut *write)
            .await?
            .rows_affected();
        sqlx::query(
            "UPDATE idempotency SET state = 'lost' WHERE node = ?1 AND state IN ('begun', 'effected')",
        )
        .bind(&self.node)
        .execute(&mut *write)
        .await?;
        commit(write).await?;
        Ok(released)
    }

    async fn forget_keys(&self, before: Time) -> Result<u64, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let forgotten = sqlx::query("DELETE FROM idempotency WHERE created_at < ?1")
            .bind(before.millis())
            .execute(&mut *write)
            .await?
            .rows_affected();
        commit(write).await?;
        Ok(forgotten)
    }
}
