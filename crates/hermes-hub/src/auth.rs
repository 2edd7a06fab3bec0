//! Authentication and authorization: keys, scopes, and the rules for creating and revoking tokens.

mod access;
mod authenticator;
mod first_token;
mod principal;
pub(crate) mod rate_limit;
mod refusals;
mod tokens;

pub use crate::auth::first_token::{FirstTokenError, create_first_token};
pub(crate) use access::{AccessControl, InvalidSetting, WrongToken};
pub use authenticator::{AuthError, Authenticator, Identity, MAX_GRACE};
pub use principal::Principal;
pub(crate) use principal::{AGENT_SCOPES, Caller};
pub(crate) use refusals::{RefusalLog, RefusedSender};
pub use tokens::{TokenRequest, check_change, check_request};
