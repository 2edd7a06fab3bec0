//! Which refused requests get an audit entry: rate-limited per sender and in total, so that refused clients cannot fill
//! the log. Suppressed entries are counted, and the count is logged instead.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use hermes_config::sync::Mutex;

use super::rate_limit::{Rate, RateLimiter};

/// The total limit is this many times the limit per sender.
const GLOBAL_FACTOR: f64 = 10.0;
/// Senders counted separately per minute.
const MAX_COUNTED_SENDERS: usize = 256;

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
