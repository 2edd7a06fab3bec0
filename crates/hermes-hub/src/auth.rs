//! Authentication and authorization: keys, scopes, and the rules for creating and revoking tokens.

mod authenticator;
mod cidr;
mod first;
mod key;
mod principal;
mod scope;
mod tokens;

pub use authenticator::{Authenticator, Caller, LONGEST_GRACE, Refusal};
pub use cidr::Cidr;
pub use first::{FirstTokenError, make_first_token};
pub use key::{KeyHash, KeyKind, NewKey, last4, new_uid, read_key};
pub use principal::Principal;
pub use scope::{Role, Scope, Scopes};
pub use tokens::{TokenRequest, check_change, check_request};
