//! Audit entries of refused requests, rate-limited per sender and in total, so that refused clients cannot fill the
//! log. Suppressed entries are counted, and the count is logged instead.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use hermes_config::sync::Mutex;
use percent_encoding::percent_decode_str;

use crate::{
    Hub,
    api_types::redact_keys,
    auth::rate_limit::{Rate, RateLimiter},
    http::rest::RequestId,
    storage::audit::NewAuditEntry,
};

/// The total limit is this many times the limit per sender.
const GLOBAL_FACTOR: f64 = 10.0;
/// Senders counted separately per minute.
const MAX_COUNTED_SENDERS: usize = 256;
const MAX_LOGGED_PATH: usize = 200;

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

#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    by_sender: RateLimiter<RefusedSender>,
    global: RateLimiter<()>,
    suppressed: Mutex<BTreeMap<RefusedSender, u64>>,
}

impl RefusalLog {
    /// Whether a refusal is logged; otherwise it is counted.
    fn should_log(&self, sender: RefusedSender, per_minute: u32) -> bool {
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

    fn take_suppressed(&self) -> BTreeMap<RefusedSender, u64> {
        std::mem::take(&mut self.suppressed.lock())
    }
}

impl Hub {
    /// Logs a refused request, or counts it.
    pub(crate) fn record_refusal(
        &self,
        sender: RefusedSender,
        entry: NewAuditEntry,
        path: &str,
        id: &RequestId,
    ) {
        let per_minute = self.settings().limits.auth_failures_per_minute;
        if !self.refusals().should_log(sender, per_minute) {
            return;
        }
        let mut entry = entry.with_target(redact_path(path));
        entry.request_id = id.0.to_string();
        tracing::info!(
            requestId = %entry.request_id,
            reason = %entry.action,
            status = entry.status,
            from = %sender,
            path = entry.target.as_deref().unwrap_or_default(),
            "request refused"
        );
        self.record_read(entry);
    }

    /// Logs how many refusals were suppressed. Called every minute and at shutdown.
    pub(crate) fn log_suppressed_refusals(&self) {
        for (sender, count) in self.refusals().take_suppressed() {
            tracing::warn!(count, from = %sender, "refused requests omitted from the audit log");
            let entry = NewAuditEntry::by_hub("refusals_left_out").denied(429);
            self.record_read(entry.with_target(format!("{count} from {sender}")));
        }
    }
}

/// A path without keys, however they are encoded.
fn redact_path(path: &str) -> String {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let clean = redact_keys::redact(&decoded);
    clean.chars().take(MAX_LOGGED_PATH).collect()
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

    #[test]
    fn no_key_in_a_path_is_written_down() {
        let key = format!("hub_rt_{}_123456", "a".repeat(43));
        for path in [
            format!("/v1/{key}"),
            format!("/v1/{}", key.replace('_', "%5F")),
        ] {
            assert_eq!(redact_path(&path), "/v1/hub_rt_[REDACTED]");
        }
    }
}
