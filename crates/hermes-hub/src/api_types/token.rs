//! Management tokens as they are listed.

use hermes_config::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;
use crate::{
    TenantId, TokenId,
    api_types::{Cidr, Role, Scope},
};

/// A management token; its secret is not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// Its name for people.
    pub name: String,
    /// A set of scopes that goes by a name.
    pub role: Option<Role>,
    /// Scopes beside those of the role.
    pub scopes: Vec<Scope>,
    /// The tenants it sees; all, if absent.
    pub tenants: Option<Vec<TenantId>>,
    /// Where it may be used from; anywhere, if empty.
    pub cidrs: Vec<Cidr>,
    /// The end of its secret.
    pub last4: String,
    /// When it ends.
    pub expires_at: Option<Time>,
    /// When it was last used.
    pub last_used_at: Option<Time>,
}

/// A new token with its secret. Not serializable, so that the secret cannot leak by accident: the reply is built where
/// it is sent.
#[derive(Debug, Clone)]
pub struct MintedToken {
    /// What is known of it.
    pub token: Token,
    /// `hub_mgmt_` and so on.
    pub secret: Secret<String>,
}
