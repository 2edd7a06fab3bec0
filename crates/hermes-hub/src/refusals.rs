//! Audit entries of refused requests, rate-limited per sender and in total, so that refused clients cannot fill the
//! log. Suppressed entries are counted, and the count is logged instead.

use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use percent_encoding::percent_decode_str;

use crate::{
    Hub,
    audit::NewEntry,
    rate::{Buckets, Rate},
    rest::RequestId,
    scrub,
};

/// The total limit is this many times the limit per sender.
const SENDERS: f64 = 10.0;
/// Senders counted separately per minute.
const COUNTED_APART: usize = 256;
const LONGEST_PATH: usize = 200;

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
pub(crate) struct Refusals {
    by_sender: Buckets<RefusedSender>,
    all: Buckets<()>,
    left_out: Mutex<BTreeMap<RefusedSender, u64>>,
}

impl Refusals {
    /// Whether a refusal is logged; otherwise it is counted.
    fn is_written_down(&self, sender: RefusedSender, per_minute: u32) -> bool {
        let each = Rate::per_minute(per_minute);
        let all = Rate {
            per_second: each.per_second * SENDERS,
            burst: each.burst * SENDERS,
        };
        let is_wanted = self.by_sender.take(sender, each).is_ok() && self.all.take((), all).is_ok();
        if !is_wanted {
            let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
            let is_known = left_out.contains_key(&sender) || left_out.len() < COUNTED_APART;
            let sender = if is_known {
                sender
            } else {
                RefusedSender::Other
            };
            *left_out.entry(sender).or_default() += 1;
        }
        is_wanted
    }

    fn take_left_out(&self) -> BTreeMap<RefusedSender, u64> {
        std::mem::take(&mut self.left_out.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Hub {
    /// Logs a refused request, or counts it.
    pub(crate) fn note_refusal(
        &self,
        sender: RefusedSender,
        entry: NewEntry,
        path: &str,
        id: &RequestId,
    ) {
        let per_minute = self.settings().limits.auth_failures_per_minute;
        if !self.refusals().is_written_down(sender, per_minute) {
            return;
        }
        let mut entry = entry.to(shown(path));
        entry.request_id = id.0.to_string();
        tracing::info!(
            requestId = %entry.request_id,
            reason = %entry.action,
            status = entry.status,
            from = %sender,
            path = entry.target.as_deref().unwrap_or_default(),
            "request refused"
        );
        self.log_read(entry);
    }

    /// Logs how many refusals were suppressed. Called every minute and at shutdown.
    pub(crate) fn write_down_left_out(&self) {
        for (sender, count) in self.refusals().take_left_out() {
            tracing::warn!(count, from = %sender, "refused requests omitted from the audit log");
            let entry = NewEntry::by_hub("refusals_left_out").denied(429);
            self.log_read(entry.to(format!("{count} from {sender}")));
        }
    }
}

/// A path without keys, however they are encoded.
fn shown(path: &str) -> String {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let clean = scrub::keys(&decoded);
    clean.chars().take(LONGEST_PATH).collect()
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
        let refusals = Refusals::default();
        for number in [1, 2] {
            let written = (0..1000).filter(|_| refusals.is_written_down(sender(number), 20));
            assert_eq!(written.count(), 20);
        }
        let left_out = refusals.take_left_out();
        assert_eq!(left_out[&sender(1)] + left_out[&sender(2)], 1960);
        assert!(refusals.take_left_out().is_empty());
    }

    #[test]
    fn many_senders_together_do_not_fill_the_log_either() {
        let refusals = Refusals::default();
        let written = (0..5000).filter(|number| refusals.is_written_down(sender(*number), 20));
        let written = written.count();
        assert!((200..300).contains(&written), "{written}");
        let left_out = refusals.take_left_out();
        assert!(left_out.len() <= COUNTED_APART + 1);
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
            assert_eq!(shown(&path), "/v1/hub_rt_[REDACTED]");
        }
    }
}
