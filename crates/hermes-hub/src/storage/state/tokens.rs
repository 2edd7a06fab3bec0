//! Management tokens, by the hashes of their secrets.

use async_trait::async_trait;

use super::{Page, Paged, StateError};
use crate::{
    TenantId, TokenId,
    api_types::{Cidr, KeyHash, Role, Scope, Time, Token},
    storage::audit::NewAuditEntry,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    pub token: Token,
    pub hash: KeyHash,
    /// Hash of the previous secret, and the end of its grace period.
    pub old: Option<(KeyHash, Time)>,
    pub created_at: Time,
}

#[derive(Debug, Clone)]
pub struct NewToken {
    pub id: TokenId,
    pub name: String,
    pub role: Option<Role>,
    /// Scopes beside those of the role.
    pub scopes: Vec<Scope>,
    /// All tenants, if absent.
    pub tenants: Option<Vec<TenantId>>,
    pub cidrs: Vec<Cidr>,
    pub expires_at: Option<Time>,
    pub secret: NewSecret,
}

#[derive(Debug, Clone)]
pub struct NewSecret {
    pub hash: KeyHash,
    pub last4: String,
    /// End of the grace period of the previous one.
    pub grace_until: Option<Time>,
}

#[async_trait]
pub trait TokenStore {
    async fn create_token(
        &self,
        token: NewToken,
        entry: NewAuditEntry,
    ) -> Result<TokenRecord, StateError>;

    /// Creates a token if there is none yet, on any node; returns whether it did.
    async fn create_first_token(
        &self,
        token: NewToken,
        entry: NewAuditEntry,
    ) -> Result<bool, StateError>;

    /// The token with this secret, or with this previous secret within its grace period.
    async fn token_of_key(&self, hash: &KeyHash) -> Result<Option<TokenRecord>, StateError>;

    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>, StateError>;

    async fn tokens(&self, page: &Page) -> Result<Paged<TokenRecord>, StateError>;

    async fn has_tokens(&self) -> Result<bool, StateError>;

    async fn rotate_token(
        &self,
        id: &TokenId,
        secret: NewSecret,
        entry: NewAuditEntry,
    ) -> Result<TokenRecord, StateError>;

    /// Deletes a token and its MCP sessions. The last admin token is kept.
    async fn revoke_token(&self, id: &TokenId, entry: NewAuditEntry) -> Result<(), StateError>;

    async fn touch_tokens(&self, used: &[(TokenId, Time)]) -> Result<(), StateError>;
}
