//! Authentication and authorization: keys, scopes, and the rules for creating and revoking tokens.

mod access;
mod authenticator;
pub(crate) mod console_sessions;
pub(crate) mod oidc;
mod principal;
pub(crate) mod rate_limit;
mod tokens;

pub(crate) use access::{AccessControl, InvalidSetting, RefusedSender, WrongToken};
pub use authenticator::{AuthError, Authenticator, Identity, MAX_GRACE};
pub use principal::Principal;
pub(crate) use principal::{AGENT_SCOPES, Caller};
pub use tokens::{FirstTokenError, TokenRequest, check_change, check_request, create_first_token};
