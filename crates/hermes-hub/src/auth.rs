//! Authentication and authorization: keys, scopes, and the rules for creating and revoking tokens.

mod authenticator;
mod first_token;
mod principal;
pub(crate) mod rate_limit;
mod tokens;

pub use crate::{
    api_types::{
        cidr::Cidr,
        key::{KeyHash, KeyKind, NewKey, last4, new_uid, parse_key},
        scope::{Role, Scope, Scopes},
    },
    auth::first_token::{FirstTokenError, create_first_token},
};
pub use authenticator::{AuthError, Authenticator, Identity, MAX_GRACE};
pub use principal::Principal;
pub use tokens::{TokenRequest, check_change, check_request};
