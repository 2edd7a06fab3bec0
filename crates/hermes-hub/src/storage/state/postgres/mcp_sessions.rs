//! MCP sessions in PostgreSQL.

use async_trait::async_trait;
use serde_json::Value;

use super::PostgresState;
use crate::{
    TokenId,
    api_types::Time,
    storage::state::{
        McpSession, McpSessionAdmission, McpSessionStore, McpSessionUse, SessionHash, StateError,
        columns::{ColumnReader, parse_hash},
    },
};

#[async_trait]
impl McpSessionStore for PostgresState {
    async fn open_mcp_session(
        &self,
        session: &SessionHash,
        token: &TokenId,
        agreed: &Value,
        most: u32,
    ) -> Result<McpSessionAdmission, StateError> {
        let mut write = self.begin_change().await?;
        // The token's row is locked, so that nodes do not exceed its limit together.
        let lock = sqlx::query("SELECT id FROM tokens WHERE id = $1 FOR NO KEY UPDATE")
            .bind(token.as_str());
        write.optional(lock).await?;
        let count = sqlx::query("SELECT COUNT(*) AS open FROM mcp_sessions WHERE token = $1")
            .bind(token.as_str());
        let mut opened = McpSessionAdmission::Opened;
        if write.one(count).await?.count("open")? >= u64::from(most) {
            let end = sqlx::query(
                "DELETE FROM mcp_sessions WHERE hash = (
                     SELECT hash FROM mcp_sessions WHERE token = $1 AND COALESCE(stream_until, 0) <= hub_now()
                     ORDER BY used_at, created_at LIMIT 1)
                 RETURNING hash",
            )
            .bind(token.as_str());
            opened = match write.optional(end).await? {
                Some(row) => McpSessionAdmission::Replaced(parse_hash(row.bytes("hash")?)?),
                None => return Ok(McpSessionAdmission::LimitReached),
            };
        }
        let insert = sqlx::query(
            "INSERT INTO mcp_sessions (hash, token, agreed, created_at, used_at)
             SELECT $1, id, $3, hub_now(), hub_now() FROM tokens WHERE id = $2",
        )
        .bind(session.as_slice())
        .bind(token.as_str())
        .bind(agreed.to_string());
        write.execute(insert).await?;
        write.commit().await?;
        Ok(opened)
    }

    async fn use_mcp_session(
        &self,
        session: &SessionHash,
        token: &TokenId,
        idle_since: Time,
    ) -> Result<Option<McpSession>, StateError> {
        let query = sqlx::query(
            "SELECT agreed, created_at, used_at, used_at < hub_now() - 60000 AS is_due FROM mcp_sessions
             WHERE hash = $1 AND token = $2 AND GREATEST(used_at, COALESCE(stream_until, 0)) >= $3",
        )
        .bind(session.as_slice())
        .bind(token.as_str())
        .bind(idle_since.millis());
        let Some(row) = self.read().await?.optional(query).await? else {
            return Ok(None);
        };
        if row.flag("is_due")? {
            let mut write = self.begin_change().await?;
            let update = sqlx::query("UPDATE mcp_sessions SET used_at = hub_now() WHERE hash = $1")
                .bind(session.as_slice());
            write.execute(update).await?;
            write.commit().await?;
        }
        Ok(Some(McpSession {
            hash: *session,
            token: token.clone(),
            agreed: row.json("agreed")?,
            created_at: row.time("created_at")?,
            used_at: row.time("used_at")?,
        }))
    }

    async fn record_mcp_session_uses(
        &self,
        uses: &[McpSessionUse],
    ) -> Result<Vec<SessionHash>, StateError> {
        let hashes: Vec<Vec<u8>> = uses.iter().map(|used| used.hash.to_vec()).collect();
        let streams: Vec<Option<i64>> = uses
            .iter()
            .map(|used| used.stream_until.map(Time::millis))
            .collect();
        let times: Vec<i64> = uses.iter().map(|used| used.used_at.millis()).collect();
        let mut write = self.begin_change().await?;
        let update = sqlx::query(
            "UPDATE mcp_sessions AS known
                 SET stream_until = uses.stream_until, used_at = GREATEST(known.used_at, uses.used_at)
             FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS uses (hash, stream_until, used_at)
             WHERE known.hash = uses.hash RETURNING known.hash",
        )
        .bind(hashes)
        .bind(streams)
        .bind(times);
        let rows = write.rows(update).await?;
        write.commit().await?;
        let present: Vec<SessionHash> = rows
            .iter()
            .map(|row| parse_hash(row.bytes("hash")?))
            .collect::<Result<_, _>>()?;
        Ok(present)
    }

    async fn existing_mcp_sessions(
        &self,
        among: &[SessionHash],
    ) -> Result<Vec<SessionHash>, StateError> {
        let among: Vec<Vec<u8>> = among.iter().map(|hash| hash.to_vec()).collect();
        let query = sqlx::query("SELECT hash FROM mcp_sessions WHERE hash = ANY($1)").bind(among);
        let rows = self.read().await?.rows(query).await?;
        rows.iter()
            .map(|row| parse_hash(row.bytes("hash")?))
            .collect()
    }

    async fn end_mcp_session(
        &self,
        session: &SessionHash,
        token: &TokenId,
    ) -> Result<bool, StateError> {
        let mut write = self.begin_change().await?;
        let delete = sqlx::query("DELETE FROM mcp_sessions WHERE hash = $1 AND token = $2")
            .bind(session.as_slice())
            .bind(token.as_str());
        let ended = write.execute(delete).await?;
        write.commit().await?;
        Ok(ended > 0)
    }

    async fn end_idle_mcp_sessions(&self, before: Time) -> Result<u64, StateError> {
        let mut write = self.begin_change().await?;
        let delete = sqlx::query(
            "DELETE FROM mcp_sessions WHERE used_at < $1 AND COALESCE(stream_until, 0) < $1",
        )
        .bind(before.millis());
        let ended = write.execute(delete).await?;
        write.commit().await?;
        Ok(ended)
    }
}
