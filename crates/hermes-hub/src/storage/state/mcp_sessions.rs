//! MCP sessions of the `initialize` era, stored so that any node can serve them.

use async_trait::async_trait;
use serde_json::Value;

use super::StateError;
use crate::{TokenId, api_types::Time};

/// SHA-256 of an MCP session's id; the id itself is not stored.
pub type SessionHash = [u8; 32];

#[derive(Debug, Clone, PartialEq)]
pub struct McpSession {
    pub hash: SessionHash,
    pub token: TokenId,
    /// The result of `initialize`.
    pub agreed: Value,
    pub created_at: Time,
    pub used_at: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpSessionUse {
    pub hash: SessionHash,
    pub used_at: Time,
    /// Until when its stream counts as open, if it has one.
    pub stream_until: Option<Time>,
}

/// The result of opening an MCP session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpSessionAdmission {
    Opened,
    /// Opened in place of this one, which was idle for longest.
    Replaced(SessionHash),
    /// The token's limit is reached and all its sessions have an open stream.
    LimitReached,
}

#[async_trait]
pub trait McpSessionStore {
    /// Opens one, if the token's limit allows it or another of its sessions is idle.
    async fn open_mcp_session(
        &self,
        hash: &SessionHash,
        token: &TokenId,
        agreed: &Value,
        most: u32,
    ) -> Result<McpSessionAdmission, StateError>;

    /// Marks a session of this token as used, if it was used after `idle_since`. The use is written at most once a
    /// minute.
    async fn use_mcp_session(
        &self,
        hash: &SessionHash,
        token: &TokenId,
        idle_since: Time,
    ) -> Result<Option<McpSession>, StateError>;

    /// Stores the last use and the open streams of sessions. Returns those that still exist.
    async fn record_mcp_session_uses(
        &self,
        uses: &[McpSessionUse],
    ) -> Result<Vec<SessionHash>, StateError>;

    async fn existing_mcp_sessions(
        &self,
        among: &[SessionHash],
    ) -> Result<Vec<SessionHash>, StateError>;

    /// Returns whether it existed and belonged to this token.
    async fn end_mcp_session(
        &self,
        hash: &SessionHash,
        token: &TokenId,
    ) -> Result<bool, StateError>;

    /// Ends sessions last used before this time that have no open stream.
    async fn end_idle_mcp_sessions(&self, before: Time) -> Result<u64, StateError>;
}
