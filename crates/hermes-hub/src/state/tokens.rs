//! Management tokens, by the hashes of their secrets.

use async_trait::async_trait;

use super::{Page, Paged, StateError};
use crate::{
    TenantId, TokenId,
    audit::NewEntry,
    auth::{Cidr, KeyHash, Role, Scope},
    shapes::{Time, Token},
};

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// As it is listed.
    pub token: Token,
    /// Of its secret.
    pub hash: KeyHash,
    /// Of the secret before, and until when that one works.
    pub old: Option<(KeyHash, Time)>,
    /// When it was made.
    pub created_at: Time,
}

/// A token to be.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its id.
    pub id: TokenId,
    /// Its name for people.
    pub name: String,
    /// Scopes by name.
    pub role: Option<Role>,
    /// More scopes.
    pub scopes: Vec<Scope>,
    /// The tenants it sees; all, if absent.
    pub tenants: Option<Vec<TenantId>>,
    /// Where it may be used from.
    pub cidrs: Vec<Cidr>,
    /// When it ends.
    pub expires_at: Option<Time>,
    /// Its secret.
    pub secret: NewSecret,
}

/// A secret to be stored as its hash.
#[derive(Debug, Clone)]
pub struct NewSecret {
    /// To find it by.
    pub hash: KeyHash,
    /// To show.
    pub last4: String,
    /// Until when the one before works, too.
    pub grace_until: Option<Time>,
}

/// Tokens.
#[async_trait]
pub trait Tokens {
    /// Stores one.
    async fn create_token(
        &self,
        token: NewToken,
        entry: NewEntry,
    ) -> Result<TokenRecord, StateError>;

    /// The one with this secret, or with this secret before a rotation whose grace lasts.
    async fn token_of_key(&self, hash: &KeyHash) -> Result<Option<TokenRecord>, StateError>;

    /// One of them.
    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>, StateError>;

    /// All of them, oldest first.
    async fn tokens(&self, page: &Page) -> Result<Paged<TokenRecord>, StateError>;

    /// Whether there is any.
    async fn has_tokens(&self) -> Result<bool, StateError>;

    /// Gives one another secret.
    async fn rotate_token(
        &self,
        id: &TokenId,
        secret: NewSecret,
        entry: NewEntry,
    ) -> Result<TokenRecord, StateError>;

    /// Forgets one and its MCP sessions. The last one that may do everything stays.
    async fn revoke_token(&self, id: &TokenId, entry: NewEntry) -> Result<(), StateError>;

    /// Writes down when tokens were last used.
    async fn touch_tokens(&self, used: &[(TokenId, Time)]) -> Result<(), StateError>;
}
