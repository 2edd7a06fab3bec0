//! Console sessions in PostgreSQL.

use async_trait::async_trait;

use super::{PostgresState, storable};
use crate::{
    TokenId,
    api_types::{KeyHash, Time, ids::ConsoleSessionId},
    storage::{
        audit::NewAuditEntry,
        state::{
            ConsoleSession, ConsoleSessionStore, NewConsoleSession, StateError,
            columns::ColumnReader, records::console_session_from_row,
        },
    },
};

#[async_trait]
impl ConsoleSessionStore for PostgresState {
    async fn open_console_session(
        &self,
        session: NewConsoleSession,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let insert = sqlx::query(
            "INSERT INTO console_sessions (id, hash, token, holder, address, user_agent, created_at, used_at, ends_at)
             VALUES ($1, $2, $3, $4, $5, $6, hub_now(), hub_now(), $7)",
        )
        .bind(session.id.as_str())
        .bind(session.hash.as_bytes().as_slice())
        .bind(session.holder.token().map(TokenId::as_str))
        .bind(storable(&serde_json::to_string(&session.holder)?))
        .bind(storable(&session.address))
        .bind(storable(&session.user_agent))
        .bind(session.ends_at.millis());
        write.execute(insert).await?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await
    }

    async fn console_session(
        &self,
        hash: &KeyHash,
        idle_since: Time,
    ) -> Result<Option<ConsoleSession>, StateError> {
        let query = sqlx::query(
            "SELECT * FROM console_sessions WHERE hash = $1 AND used_at >= $2 AND ends_at > hub_now()",
        )
        .bind(hash.as_bytes().as_slice())
        .bind(idle_since.millis());
        let row = self.read().await?.optional(query).await?;
        row.as_ref().map(console_session_from_row).transpose()
    }

    async fn touch_console_session(&self, id: &ConsoleSessionId) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let touch = sqlx::query("UPDATE console_sessions SET used_at = hub_now() WHERE id = $1")
            .bind(id.as_str());
        write.execute(touch).await?;
        write.commit().await
    }

    async fn console_sessions(
        &self,
        token: Option<&TokenId>,
        idle_since: Time,
    ) -> Result<Vec<ConsoleSession>, StateError> {
        let query = sqlx::query(
            "SELECT * FROM console_sessions
             WHERE used_at >= $1 AND ends_at > hub_now() AND ($2::text IS NULL OR token = $2)
             ORDER BY created_at DESC, id LIMIT 1000",
        )
        .bind(idle_since.millis())
        .bind(token.map(TokenId::as_str));
        let rows = self.read().await?.rows(query).await?;
        rows.iter().map(console_session_from_row).collect()
    }

    async fn end_console_session(
        &self,
        id: &ConsoleSessionId,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let end = sqlx::query("DELETE FROM console_sessions WHERE id = $1 RETURNING id")
            .bind(id.as_str());
        if write.optional(end).await?.is_none() {
            return Err(StateError::NotFound { what: "session" });
        }
        self.append_effect(&mut write, entry).await?;
        write.commit().await
    }

    async fn add_sign_in_link(
        &self,
        hash: &KeyHash,
        token: &TokenId,
        ends_at: Time,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let insert =
            sqlx::query("INSERT INTO sign_in_links (hash, token, ends_at) VALUES ($1, $2, $3)")
                .bind(hash.as_bytes().as_slice())
                .bind(token.as_str())
                .bind(ends_at.millis());
        write.execute(insert).await?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await
    }

    async fn take_sign_in_link(&self, hash: &KeyHash) -> Result<Option<TokenId>, StateError> {
        let mut write = self.begin_change().await?;
        let take = sqlx::query(
            "DELETE FROM sign_in_links WHERE hash = $1 AND ends_at > hub_now() RETURNING token",
        )
        .bind(hash.as_bytes().as_slice());
        let row = write.optional(take).await?;
        write.commit().await?;
        row.map(|row| row.id("token", TokenId::parse)).transpose()
    }

    async fn end_old_console_sessions(&self, idle_since: Time) -> Result<u64, StateError> {
        let mut write = self.begin_change().await?;
        let sessions = sqlx::query(
            "DELETE FROM console_sessions WHERE used_at < $1 OR ends_at <= hub_now() RETURNING id",
        )
        .bind(idle_since.millis());
        let sessions = write.rows(sessions).await?.len();
        let links =
            sqlx::query("DELETE FROM sign_in_links WHERE ends_at <= hub_now() RETURNING token");
        let links = write.rows(links).await?.len();
        write.commit().await?;
        Ok((sessions + links) as u64)
    }
}
