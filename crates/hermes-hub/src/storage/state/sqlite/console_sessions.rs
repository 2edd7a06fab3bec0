//! Console sessions in SQLite.

use async_trait::async_trait;

use super::{Affected, SqliteState, commit};
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
impl ConsoleSessionStore for SqliteState {
    async fn open_console_session(
        &self,
        session: NewConsoleSession,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query(
            "INSERT INTO console_sessions (id, hash, token, holder, address, user_agent, created_at, used_at, ends_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8)",
        )
        .bind(session.id.as_str())
        .bind(session.hash.as_bytes().as_slice())
        .bind(session.holder.token().map(TokenId::as_str))
        .bind(serde_json::to_string(&session.holder)?)
        .bind(&session.address)
        .bind(&session.user_agent)
        .bind(Time::now().millis())
        .bind(session.ends_at.millis())
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await
    }

    async fn console_session(
        &self,
        hash: &KeyHash,
        idle_since: Time,
    ) -> Result<Option<ConsoleSession>, StateError> {
        let row = sqlx::query(
            "SELECT * FROM console_sessions WHERE hash = ?1 AND used_at >= ?2 AND ends_at > ?3",
        )
        .bind(hash.as_bytes().as_slice())
        .bind(idle_since.millis())
        .bind(Time::now().millis())
        .fetch_optional(self.readers())
        .await?;
        row.as_ref().map(console_session_from_row).transpose()
    }

    async fn touch_console_session(&self, id: &ConsoleSessionId) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query("UPDATE console_sessions SET used_at = ?2 WHERE id = ?1")
            .bind(id.as_str())
            .bind(Time::now().millis())
            .execute(&mut *write)
            .await?;
        commit(write).await
    }

    async fn console_sessions(
        &self,
        token: Option<&TokenId>,
        idle_since: Time,
    ) -> Result<Vec<ConsoleSession>, StateError> {
        let rows = sqlx::query(
            "SELECT * FROM console_sessions
             WHERE used_at >= ?1 AND ends_at > ?2 AND (?3 IS NULL OR token = ?3)
             ORDER BY created_at DESC, id LIMIT 1000",
        )
        .bind(idle_since.millis())
        .bind(Time::now().millis())
        .bind(token.map(TokenId::as_str))
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(console_session_from_row).collect()
    }

    async fn end_console_session(
        &self,
        id: &ConsoleSessionId,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let ended = sqlx::query("DELETE FROM console_sessions WHERE id = ?1")
            .bind(id.as_str())
            .execute(&mut *write)
            .await?;
        if ended.rows_affected() == 0 {
            return Err(StateError::NotFound { what: "session" });
        }
        self.append_effect(&mut write, entry).await?;
        commit(write).await
    }

    async fn add_sign_in_link(
        &self,
        hash: &KeyHash,
        token: &TokenId,
        ends_at: Time,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query("INSERT INTO sign_in_links (hash, token, ends_at) VALUES (?1, ?2, ?3)")
            .bind(hash.as_bytes().as_slice())
            .bind(token.as_str())
            .bind(ends_at.millis())
            .execute(&mut *write)
            .await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await
    }

    async fn take_sign_in_link(&self, hash: &KeyHash) -> Result<Option<TokenId>, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let row = sqlx::query(
            "DELETE FROM sign_in_links WHERE hash = ?1 AND ends_at > ?2 RETURNING token",
        )
        .bind(hash.as_bytes().as_slice())
        .bind(Time::now().millis())
        .fetch_optional(&mut *write)
        .await?;
        commit(write).await?;
        row.map(|row| row.id("token", TokenId::parse)).transpose()
    }

    async fn end_old_console_sessions(&self, idle_since: Time) -> Result<u64, StateError> {
        let now = Time::now().millis();
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let sessions =
            sqlx::query("DELETE FROM console_sessions WHERE used_at < ?1 OR ends_at <= ?2")
                .bind(idle_since.millis())
                .bind(now)
                .execute(&mut *write)
                .await?;
        let links = sqlx::query("DELETE FROM sign_in_links WHERE ends_at <= ?1")
            .bind(now)
            .execute(&mut *write)
            .await?;
        commit(write).await?;
        Ok(sessions.rows_affected() + links.rows_affected())
    }
}
