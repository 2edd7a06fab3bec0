//! Idempotency keys in PostgreSQL.

use async_trait::async_trait;

use super::{PostgresState, retention::MAX_DELETED, write_group::GroupedWrite};
use crate::{
    api_types::Time,
    storage::state::{
        IdempotencyKey, IdempotencyStore, KeyClaim, StateError, StoredReply, columns::ColumnReader,
        records::KeyProgress,
    },
};

/// Why a request is not done: the node that began it was silent for so long that another one does it.
const TAKEN_OVER: &str = "request_taken_over";

/// Whether the node that claimed `known` is gone: it has not been seen for a minute, and the request is as old. What it
/// would still do is refused, so a node that only stood still does not do it a second time.
macro_rules! is_gone {
    () => {
        "known.created_at < hub_now() - 60000 AND NOT EXISTS (
             SELECT 1 FROM nodes WHERE nodes.id = known.node AND nodes.seen_at > clock_timestamp() - INTERVAL '1 minute')"
    };
}

impl PostgresState {
    /// Sets the progress of a request, which never goes back. Refuses what another node does by now.
    pub(super) async fn mark_progress(
        &self,
        write: &mut GroupedWrite,
        key: &IdempotencyKey,
        progress: KeyProgress,
    ) -> Result<(), StateError> {
        let update = sqlx::query(
            "UPDATE idempotency SET state = $4 WHERE token = $1 AND route = $2 AND key = $3
                 AND state IN ('running', 'begun') AND node = $5",
        )
        .bind(&key.token)
        .bind(&key.route)
        .bind(&key.key)
        .bind(progress.as_str())
        .bind(&self.node);
        if write.execute(update).await? > 0 {
            return Ok(());
        }
        let other = sqlx::query(
            "SELECT 1 FROM idempotency WHERE token = $1 AND route = $2 AND key = $3 AND node <> $4",
        )
        .bind(&key.token)
        .bind(&key.route)
        .bind(&key.key)
        .bind(&self.node);
        match write.optional(other).await? {
            None => Ok(()),
            Some(_) => Err(StateError::Conflict {
                reason: TAKEN_OVER,
                message: "another node does this request".into(),
            }),
        }
    }
}

#[async_trait]
impl IdempotencyStore for PostgresState {
    async fn claim_key(
        &self,
        key: &IdempotencyKey,
        body_sha256: &[u8; 32],
    ) -> Result<KeyClaim, StateError> {
        let mut write = self.begin_change().await?;
        // A key of more than a day ago counts as a new one, and so does that of a node that is gone and had not begun. While
        // another node claims it, this waits.
        let claim = sqlx::query(concat!(
            "INSERT INTO idempotency AS known (token, route, key, body, state, node, created_at)
             VALUES ($1, $2, $3, $4, 'running', $5, hub_now())
             ON CONFLICT (token, route, key) DO UPDATE
                 SET body = excluded.body, state = excluded.state, node = excluded.node, status = NULL, reply = NULL,
                     created_at = excluded.created_at
                 WHERE known.created_at < hub_now() - 86400000
                     OR (known.state = 'running' AND known.body = excluded.body AND ",
            is_gone!(),
            ")",
        ))
        .bind(&key.token)
        .bind(&key.route)
        .bind(&key.key)
        .bind(body_sha256.as_slice())
        .bind(&self.node);
        if write.execute(claim).await? > 0 {
            write.commit().await?;
            return Ok(KeyClaim::First);
        }
        let known = sqlx::query(concat!(
            "SELECT body, state, status, reply, (",
            is_gone!(),
            ") AS is_gone FROM idempotency known WHERE token = $1 AND route = $2 AND key = $3",
        ))
        .bind(&key.token)
        .bind(&key.route)
        .bind(&key.key);
        let row = write.one(known).await?;
        if row.bytes("body")? != body_sha256 {
            return Ok(KeyClaim::BodyMismatch);
        }
        Ok(match row.text("state")?.as_str() {
            "answered" => KeyClaim::Replay(StoredReply {
                status: u16::try_from(row.count("status")?).map_err(StateError::broken)?,
                body: row.bytes("reply")?,
            }),
            "lost" => KeyClaim::ReplyLost,
            "begun" | "effected" if row.flag("is_gone")? => KeyClaim::ReplyLost,
            _ => KeyClaim::Running,
        })
    }

    async fn finish_key(&self, key: &IdempotencyKey, reply: StoredReply) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let update = sqlx::query(
            "UPDATE idempotency SET state = 'answered', status = $4, reply = $5
             WHERE token = $1 AND route = $2 AND key = $3 AND node = $6",
        )
        .bind(&key.token)
        .bind(&key.route)
        .bind(&key.key)
        .bind(i64::from(reply.status))
        .bind(reply.body)
        .bind(&self.node);
        write.execute(update).await?;
        write.commit().await
    }

    async fn release_key(&self, key: &IdempotencyKey) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let delete = sqlx::query(
            "DELETE FROM idempotency WHERE token = $1 AND route = $2 AND key = $3
                 AND state IN ('running', 'begun') AND node = $4",
        )
        .bind(&key.token)
        .bind(&key.route)
        .bind(&key.key)
        .bind(&self.node);
        write.execute(delete).await?;
        write.commit().await
    }

    async fn release_interrupted_keys(&self) -> Result<u64, StateError> {
        let mut write = self.begin_change().await?;
        let delete = sqlx::query("DELETE FROM idempotency WHERE node = $1 AND state = 'running'")
            .bind(&self.node);
        let released = write.execute(delete).await?;
        let update = sqlx::query(
            "UPDATE idempotency SET state = 'lost' WHERE node = $1 AND state IN ('begun', 'effected')",
        )
        .bind(&self.node);
        write.execute(update).await?;
        write.commit().await?;
        Ok(released)
    }

    async fn forget_keys(&self, before: Time) -> Result<u64, StateError> {
        // A key that is used again meanwhile is in another place, and not that old any more.
        let delete = "DELETE FROM idempotency WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM idempotency WHERE created_at < $1 ORDER BY created_at LIMIT $2)) AND created_at < $1";
        self.delete_in_parts(delete, before.millis(), MAX_DELETED)
            .await
    }
}
