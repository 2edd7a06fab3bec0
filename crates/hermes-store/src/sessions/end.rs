//! Ends of sessions. The first end stands, except that a reset overrules two that nobody decided on.

use super::{Session, session_columns};
use crate::{SessionId, SessionKey, Store, StoreError, clock::epoch_seconds};

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The user began anew.
    SessionReset,
    /// Nobody wrote for a while.
    Idle,
    /// The daily hour came.
    Daily,
    /// It was put aside.
    Suspended,
    /// It was to go on after a restart, but too much time passed.
    ResumePendingExpired,
    /// The chat went over to another session.
    SessionSwitch,
    /// The user began another one.
    NewSession,
    /// The command line ended.
    CliClose,
    /// The agent's process cleaned up.
    AgentClose,
    /// Another session was resumed instead.
    ResumedOther,
    /// A branch was taken from it.
    Branched,
    /// It goes on, shortened, under another id.
    Compression,
    /// The cron job is done.
    CronComplete,
    /// Its viewer went away.
    WsOrphanReap,
}

impl EndReason {
    /// The word stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionReset => "session_reset",
            Self::Idle => "idle",
            Self::Daily => "daily",
            Self::Suspended => "suspended",
            Self::ResumePendingExpired => "resume_pending_expired",
            Self::SessionSwitch => "session_switch",
            Self::NewSession => "new_session",
            Self::CliClose => "cli_close",
            Self::AgentClose => "agent_close",
            Self::ResumedOther => "resumed_other",
            Self::Branched => "branched",
            Self::Compression => "compression",
            Self::CronComplete => "cron_complete",
            Self::WsOrphanReap => "ws_orphan_reap",
        }
    }

    /// Whether it is a decision that the conversation is over.
    fn is_reset(self) -> bool {
        matches!(
            self,
            Self::SessionReset
                | Self::Idle
                | Self::Daily
                | Self::Suspended
                | Self::ResumePendingExpired
        )
    }
}

impl Store {
    /// Ends a session. Returns whether this end is the one that stands.
    pub async fn end_session(&self, id: &SessionId, reason: EndReason) -> Result<bool, StoreError> {
        let mut write = self.begin().await?;
        let statement = if reason.is_reset() {
            "UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE id = ?1 \
             AND (ended_at IS NULL OR end_reason IN ('agent_close', 'ws_orphan_reap'))"
        } else {
            "UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE id = ?1 AND ended_at IS NULL"
        };
        let done = sqlx::query(statement)
            .bind(id.as_str())
            .bind(epoch_seconds())
            .bind(reason.as_str())
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(error))?;
        write.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Opens an ended session again.
    pub async fn reopen_session(&self, id: &SessionId) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        let done =
            sqlx::query("UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1")
                .bind(id.as_str())
                .execute(&mut *write)
                .await
                .map_err(|error| self.error(error))?;
        super::require_row(done.rows_affected(), id)?;
        write.commit().await
    }

    /// The session a chat is in: its newest one, if that is open.
    pub async fn current_session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            session_columns!(),
            " FROM {sessions} AS s WHERE s.session_key = ?1 ORDER BY s.started_at DESC, s.id DESC LIMIT 1"
        );
        let found = sqlx::query(self.sql(SQL))
            .bind(key.as_str())
            .fetch_optional(self.readers())
            .await;
        Ok(self
            .read_session(found)?
            .filter(|session| session.ended_at.is_none()))
    }

    /// The session a chat is in, opened again if it ended by accident.
    pub async fn resume_key(&self, key: &SessionKey) -> Result<Option<Session>, StoreError> {
        let mut write = self.begin().await?;
        let reopened = sqlx::query(
            "UPDATE sessions SET ended_at = NULL, end_reason = NULL \
             WHERE end_reason IN ('agent_close', 'ws_orphan_reap') AND id = (\
             SELECT id FROM sessions WHERE session_key = ?1 ORDER BY started_at DESC, id DESC LIMIT 1)",
        )
        .bind(key.as_str())
        .execute(&mut *write)
        .await
        .map_err(|error| self.error(error))?;
        if reopened.rows_affected() > 0 {
            write.commit().await?;
        } else {
            drop(write);
        }
        self.current_session(key).await
    }
}
