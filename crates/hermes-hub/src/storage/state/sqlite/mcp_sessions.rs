//! MCP sessions in SQLite.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::{Affected, SqliteState, commit};
use crate::{
    TokenId,
    api_types::Time,
    storage::state::{
        McpSession, McpSessionAdmission, McpSessionStore, McpSessionUse, SessionHash, StateError,
        columns::{ColumnReader, parse_hash},
    },
};

/// A use is written at most this often.
const USE_WRITE_INTERVAL: Duration = Duration::from_mins(1);

#[async_trait]
impl McpSessionStore for SqliteState {
    async fn open_mcp_session(
        &self,
        session: &SessionHash,
        token: &TokenId,
        agreed: &Value,
        most: u32,
    ) -> Result<McpSessionAdmission, StateError> {
        let now = Time::now().millis();
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM mcp_sessions WHERE token = ?1")
            .bind(token.as_str())
            .fetch_one(&mut *write)
            .await?;
        let mut opened = McpSessionAdmission::Opened;
        if count >= i64::from(most) {
            let ended: Option<Vec<u8>> = sqlx::query_scalar(
                "DELETE FROM mcp_sessions WHERE hash = (
                     SELECT hash FROM mcp_sessions WHERE token = ?1 AND IFNULL(stream_until, 0) <= ?2
                     ORDER BY used_at, created_at LIMIT 1)
                 RETURNING hash",
            )
            .bind(token.as_str())
            .bind(now)
            .fetch_optional(&mut *write)
            .await?;
            opened = match ended {
                Some(ended) => McpSessionAdmission::Replaced(parse_hash(ended)?),
                None => return Ok(McpSessionAdmission::LimitReached),
            };
        }
        sqlx::query(
            "INSERT INTO mcp_sessions (hash, token, agreed, created_at, used_at)
             SELECT ?1, id, ?3, ?4, ?4 FROM tokens WHERE id = ?2",
        )
        .bind(session.as_slice())
        .bind(token.as_str())
        .bind(agreed.to_string())
        .bind(now)
        .execute(&mut *write)
        .await?;
        commit(write).await?;
        Ok(opened)
    }

    async fn use_mcp_session(
        &self,
        session: &SessionHash,
        token: &TokenId,
        idle_since: Time,
    ) -> Result<Option<McpSession>, StateError> {
        let row = sqlx::query(
            "SELECT agreed, created_at, used_at FROM mcp_sessions
             WHERE hash = ?1 AND token = ?2 AND MAX(used_at, IFNULL(stream_until, 0)) >= ?3",
        )
        .bind(session.as_slice())
        .bind(token.as_str())
        .bind(idle_since.millis())
        .fetch_optional(self.readers())
        .await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let now = Time::now();
        let used_at = row.time("used_at")?;
        if used_at < now.before(USE_WRITE_INTERVAL) {
            let mut write = self.begin_change(Affected::NoTenant).await?;
            sqlx::query("UPDATE mcp_sessions SET used_at = ?2 WHERE hash = ?1")
                .bind(session.as_slice())
                .bind(now.millis())
                .execute(&mut *write)
                .await?;
            commit(write).await?;
        }
        Ok(Some(McpSession {
            hash: *session,
            token: token.clone(),
            agreed: row.json("agreed")?,
            created_at: row.time("created_at")?,
            used_at,
        }))
    }

    async fn record_mcp_session_uses(
        &self,
        uses: &[McpSessionUse],
    ) -> Result<Vec<SessionHash>, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let mut present = Vec::with_capacity(uses.len());
        for used in uses {
            let noted = sqlx::query(
                "UPDATE mcp_sessions SET stream_until = ?2, used_at = MAX(used_at, ?3) WHERE hash = ?1",
            )
            .bind(used.hash.as_slice())
            .bind(used.stream_until.map(Time::millis))
            .bind(used.used_at.millis())
            .execute(&mut *write)
            .await?;
            if noted.rows_affected() > 0 {
                present.push(used.hash);
            }
        }
        commit(write).await?;
        Ok(present)
    }

    async fn existing_mcp_sessions(
        &self,
        among: &[SessionHash],
    ) -> Result<Vec<SessionHash>, StateError> {
        let among: Vec<String> = among
            .iter()
            .map(|hash| crate::api_types::ids::hex(hash))
            .collect();
        let rows = sqlx::query(
            "SELECT hash FROM mcp_sessions WHERE hash IN (SELECT unhex(value) FROM json_each(?1))",
        )
        .bind(serde_json::to_string(&among)?)
        .fetch_all(self.readers())
        .await?;
        rows.iter()
            .map(|row| parse_hash(row.bytes("hash")?))
            .collect()
    }

    async fn end_mcp_session(
        &self,
        session: &SessionHash,
        token: &TokenId,
    ) -> Result<bool, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let ended = sqlx::query("DELETE FROM mcp_sessions WHERE hash = ?1 AND token = ?2")
            .bind(session.as_slice())
            .bind(token.as_str())
            .execute(&mut *write)
            .await?
            .rows_affected();
        commit(write).await?;
        Ok(ended > 0)
    }

    async fn end_idle_mcp_sessions(&self, before: Time) -> Result<u64, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let ended = sqlx::query(
            "DELETE FROM mcp_sessions WHERE used_at < ?1 AND IFNULL(stream_until, 0) < ?1",
        )
        .bind(before.millis())
        .execute(&mut *write)
        .await?
        .rows_affected();
        commit(write).await?;
        Ok(ended)
    }
}
