//! What every request passes before its operation: its token, its rate, and what is known of its address; and which
//! refused requests get an audit entry.

use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use hermes_config::sync::Mutex;
use http::HeaderValue;
use sha2::{Digest, Sha256};

use super::{
    Authenticator, Caller,
    rate_limit::{Rate, RateLimiter},
};
use crate::{TokenId, api_types::Cidr, settings::Settings, storage::state::State};

/// Wrong tokens are counted by their first characters: the key kind and a few more.
const TOKEN_PREFIX_CHARS: usize = 15;
const TOKEN_PREFIX_BUCKETS: u16 = 4096;
/// The total limit of logged refusals is this many times the limit per sender.
const GLOBAL_FACTOR: f64 = 10.0;
/// Senders counted separately per minute.
const MAX_COUNTED_SENDERS: usize = 256;

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
    /// How many nodes answer requests.
    node_count: AtomicU32,
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
            node_count: AtomicU32::new(1),
        })
    }

    /// Requests come to all nodes alike, so each allows its part of a rate.
    pub(crate) fn share_of(&self, rate: Rate) -> Rate {
        rate.divided_by(self.node_count.load(Ordering::Relaxed))
    }

    pub(crate) fn set_node_count(&self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.node_count.store(count.max(1), Ordering::Relaxed);
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RefusedSender {
    Address(IpAddr),
    /// A client of the private socket.
    PrivateSocket,
    /// Senders beyond those that are counted separately.
    Other,
}

impl fmt::Display for RefusedSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::PrivateSocket => f.write_str("the private socket"),
            Self::Other => f.write_str("other addresses"),
        }
    }
}

/// Which refused requests get an audit entry: rate-limited per sender and in total, so that refused clients cannot fill
/// the log. Suppressed entries are counted, and the count is logged instead.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    by_sender: RateLimiter<RefusedSender>,
    global: RateLimiter<()>,
    suppressed: Mutex<BTreeMap<RefusedSender, u64>>,
}

impl RefusalLog {
    /// Whether a refusal is logged; otherwise it is counted.
    pub(crate) fn should_log(&self, sender: RefusedSender, per_minute: u32) -> bool {
        let each = Rate::per_minute(per_minute);
        let all = Rate {
            per_second: each.per_second * GLOBAL_FACTOR,
            burst: each.burst * GLOBAL_FACTOR,
        };
        let is_wanted =
            self.by_sender.check(sender, each).is_ok() && self.global.check((), all).is_ok();
        if !is_wanted {
            let mut left_out = self.suppressed.lock();
            let is_known = left_out.contains_key(&sender) || left_out.len() < MAX_COUNTED_SENDERS;
            let sender = if is_known {
                sender
            } else {
                RefusedSender::Other
            };
            *left_out.entry(sender).or_default() += 1;
        }
        is_wanted
    }

    pub(crate) fn take_suppressed(&self) -> BTreeMap<RefusedSender, u64> {
        std::mem::take(&mut self.suppressed.lock())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn sender(number: u32) -> RefusedSender {
        RefusedSender::Address(Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn a_few_of_each_sender_are_written_down_and_the_rest_is_counted() {
        let refusals = RefusalLog::default();
        for number in [1, 2] {
            let written = (0..1000).filter(|_| refusals.should_log(sender(number), 20));
            assert_eq!(written.count(), 20);
        }
        let left_out = refusals.take_suppressed();
        assert_eq!(left_out[&sender(1)] + left_out[&sender(2)], 1960);
        assert!(refusals.take_suppressed().is_empty());
    }

    #[test]
    fn many_senders_together_do_not_fill_the_log_either() {
        let refusals = RefusalLog::default();
        let written = (0..5000).filter(|number| refusals.should_log(sender(*number), 20));
        let written = written.count();
        assert!((200..300).contains(&written), "{written}");
        let left_out = refusals.take_suppressed();
        assert!(left_out.len() <= MAX_COUNTED_SENDERS + 1);
        let sum: u64 = left_out.values().sum();
        assert_eq!(sum, 5000 - written as u64);
    }
}
