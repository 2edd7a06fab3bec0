//! Sessions of people in the console, and links that sign them in once.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::StateError;
use crate::{
    TokenId,
    api_types::{KeyHash, Role, Time, ids::ConsoleSessionId},
    storage::audit::NewAuditEntry,
};

/// Whose rights a session has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionHolder {
    Token(TokenId),
    /// Somebody whom an identity provider knows.
    Person(SignedInPerson),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedInPerson {
    pub issuer: String,
    pub subject: String,
    pub name: String,
    pub role: Role,
    /// What the provider gave at the sign-in and wants to see at the sign-out: its ID token, encrypted, as Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_token: Option<String>,
}

impl SessionHolder {
    pub fn token(&self) -> Option<&TokenId> {
        match self {
            Self::Token(token) => Some(token),
            Self::Person(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleSession {
    pub id: ConsoleSessionId,
    pub holder: SessionHolder,
    pub address: String,
    pub user_agent: String,
    pub created_at: Time,
    pub used_at: Time,
    pub ends_at: Time,
}

#[derive(Debug, Clone)]
pub struct NewConsoleSession {
    pub id: ConsoleSessionId,
    /// Of the cookie, which is not stored.
    pub hash: KeyHash,
    pub holder: SessionHolder,
    pub address: String,
    pub user_agent: String,
    pub ends_at: Time,
}

#[async_trait]
pub trait ConsoleSessionStore {
    async fn open_console_session(
        &self,
        session: NewConsoleSession,
        entry: NewAuditEntry,
    ) -> Result<(), StateError>;

    /// The session of a cookie, if it was used after `idle_since` and has not ended.
    async fn console_session(
        &self,
        hash: &KeyHash,
        idle_since: Time,
    ) -> Result<Option<ConsoleSession>, StateError>;

    async fn touch_console_session(&self, id: &ConsoleSessionId) -> Result<(), StateError>;

    /// All that have not ended, the latest first; of one token, if it is given.
    async fn console_sessions(
        &self,
        token: Option<&TokenId>,
        idle_since: Time,
    ) -> Result<Vec<ConsoleSession>, StateError>;

    async fn end_console_session(
        &self,
        id: &ConsoleSessionId,
        entry: NewAuditEntry,
    ) -> Result<(), StateError>;

    /// Stores a link that signs in once with the rights of a token.
    async fn add_sign_in_link(
        &self,
        hash: &KeyHash,
        token: &TokenId,
        ends_at: Time,
        entry: NewAuditEntry,
    ) -> Result<(), StateError>;

    /// Uses a link up: whoever comes second gets nothing.
    async fn take_sign_in_link(&self, hash: &KeyHash) -> Result<Option<TokenId>, StateError>;

    /// Deletes sessions and links that have ended. Returns how many.
    async fn end_old_console_sessions(&self, idle_since: Time) -> Result<u64, StateError>;
}
