//! What every request passes before its operation: its token, its rate, and what is known of its address.

use std::{net::IpAddr, sync::Arc};

use http::HeaderValue;
use sha2::{Digest, Sha256};

use super::{Authenticator, Caller, RefusalLog, rate_limit::RateLimiter};
use crate::{TokenId, api_types::Cidr, settings::Settings, storage::state::State};

/// Wrong tokens are counted by their first characters: the key kind and a few more.
const TOKEN_PREFIX_CHARS: usize = 15;
const TOKEN_PREFIX_BUCKETS: u16 = 4096;

/// A setting that can be checked only at the start.
pub(crate) struct InvalidSetting {
    pub(crate) key: &'static str,
    pub(crate) reason: String,
}

pub(crate) struct AccessControl {
    pub(crate) authenticator: Authenticator,
    pub(crate) request_limiter: RateLimiter<TokenId>,
    pub(crate) wrong_token_limiter: RateLimiter<WrongToken>,
    pub(crate) refusals: RefusalLog,
    pub(crate) trusted_proxies: Vec<Cidr>,
    /// The `WWW-Authenticate` header of refusals.
    pub(crate) challenge: HeaderValue,
    /// The caller on routes that need no token.
    pub(crate) anonymous: Caller,
}

impl AccessControl {
    pub(crate) fn new(state: Arc<dyn State>, settings: &Settings) -> Result<Self, InvalidSetting> {
        let trusted_proxies = settings
            .trust_proxy
            .iter()
            .map(|range| {
                range.parse().map_err(|error| InvalidSetting {
                    key: "trust_proxy",
                    reason: format!("{error}"),
                })
            })
            .collect::<Result<_, _>>()?;
        let metadata = format!(
            "{}/.well-known/oauth-protected-resource/mcp",
            settings.public_url
        );
        let challenge = HeaderValue::from_str(&format!("Bearer resource_metadata=\"{metadata}\""))
            .map_err(|error| InvalidSetting {
                key: "public_url",
                reason: error.to_string(),
            })?;
        Ok(Self {
            authenticator: Authenticator::new(state),
            request_limiter: RateLimiter::default(),
            wrong_token_limiter: RateLimiter::default(),
            refusals: RefusalLog::default(),
            trusted_proxies,
            challenge,
            anonymous: Caller::anonymous(),
        })
    }
}

/// What wrong tokens are counted by. A valid token always passes, so collisions are harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WrongToken {
    Address(IpAddr),
    /// A short hash of their first characters.
    Prefix(u16),
}

impl WrongToken {
    pub(crate) fn from_prefix(token: &str) -> Self {
        let beginning = &token.as_bytes()[..token.len().min(TOKEN_PREFIX_CHARS)];
        let hash = Sha256::digest(beginning);
        Self::Prefix(u16::from_be_bytes([hash[0], hash[1]]) % TOKEN_PREFIX_BUCKETS)
    }
}
