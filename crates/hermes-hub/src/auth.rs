//! Authentication and authorization: keys, scopes, and the rules for creating and revoking tokens.

mod authenticator;
mod cidr;
mod first_token;
mod key;
mod principal;
mod scope;
mod tokens;

pub use crate::auth::first_token::{FirstTokenError, create_first_token};
pub use authenticator::{AuthError, Authenticator, Identity, MAX_GRACE};
pub use cidr::Cidr;
pub use key::{KeyHash, KeyKind, NewKey, last4, new_uid, parse_key};
pub use principal::Principal;
pub use scope::{Role, Scope, Scopes};
pub use tokens::{TokenRequest, check_change, check_request};
