//! MCP sessions of clients that begin with `initialize`, kept so that any node serves them.

use async_trait::async_trait;
use serde_json::Value;

use super::StateError;
use crate::{TokenId, shapes::Time};

/// SHA-256 of a session's id; the id itself is not stored.
pub type SessionHash = [u8; 32];

/// A session.
#[derive(Debug, Clone, PartialEq)]
pub struct McpSession {
    /// Of its id.
    pub hash: SessionHash,
    /// Whose it is.
    pub token: TokenId,
    /// What was agreed upon in `initialize`.
    pub agreed: Value,
    /// When it began.
    pub created_at: Time,
    /// When it was last used.
    pub used_at: Time,
}

/// How a session is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpUse {
    /// Which.
    pub hash: SessionHash,
    /// When it was last used.
    pub used_at: Time,
    /// How long its stream counts as open, if it has one.
    pub stream_until: Option<Time>,
}

/// What became of a session that was to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// It began.
    Yes,
    /// It began, and this one, the longest idle, ended for it.
    InsteadOf(SessionHash),
    /// All that the token may have are there and have an open stream.
    No,
}

/// MCP sessions.
#[async_trait]
pub trait McpSessions {
    /// Begins one, if the token may have one more or one of its others is idle.
    async fn open_mcp_session(
        &self,
        hash: &SessionHash,
        token: &TokenId,
        agreed: &Value,
        most: u32,
    ) -> Result<Opened, StateError>;

    /// One that belongs to this token and was used after `idle_since`; using it now. Its use is written down once a
    /// minute at most.
    async fn use_mcp_session(
        &self,
        hash: &SessionHash,
        token: &TokenId,
        idle_since: Time,
    ) -> Result<Option<McpSession>, StateError>;

    /// Writes down when sessions were last used, and that they have an open stream until then or none. Tells which of
    /// them are still there.
    async fn note_mcp_uses(&self, uses: &[McpUse]) -> Result<Vec<SessionHash>, StateError>;

    /// Which of these are still there.
    async fn present_mcp_sessions(
        &self,
        among: &[SessionHash],
    ) -> Result<Vec<SessionHash>, StateError>;

    /// Ends one; tells whether it was there and belonged to this token.
    async fn end_mcp_session(
        &self,
        hash: &SessionHash,
        token: &TokenId,
    ) -> Result<bool, StateError>;

    /// Ends those that were last used before, and have no stream.
    async fn end_idle_mcp_sessions(&self, before: Time) -> Result<u64, StateError>;
}
