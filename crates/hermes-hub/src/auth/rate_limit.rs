//! Rate limits with token buckets.

use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

use hermes_config::sync::Mutex;

/// When there are more buckets, full ones are dropped.
const MAX_BUCKETS: usize = 10_000;

/// Token buckets, one for each key.
#[derive(Debug)]
pub(crate) struct RateLimiter<K> {
    buckets: Mutex<BucketMap<K>>,
}

#[derive(Debug)]
struct BucketMap<K> {
    buckets: HashMap<K, Bucket>,
    /// With this many buckets, full ones are dropped.
    cleanup_threshold: usize,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    updated_at: Instant,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) burst: f64,
}

impl Rate {
    /// A rate per minute, with the same burst.
    pub(crate) fn per_minute(count: u32) -> Self {
        Self {
            per_second: f64::from(count) / 60.0,
            burst: f64::from(count.max(1)),
        }
    }

    /// The part of one of several that are asked alike.
    pub(crate) fn divided_by(self, count: u32) -> Self {
        let count = f64::from(count.max(1));
        Self {
            per_second: self.per_second / count,
            burst: (self.burst / count).max(1.0),
        }
    }
}

/// The state of a limit, for response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimitStatus {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimitExceeded {
    pub(crate) retry_after: Duration,
    pub(crate) status: RateLimitStatus,
}

impl<K> Default for RateLimiter<K> {
    fn default() -> Self {
        Self {
            buckets: Mutex::new(BucketMap {
                buckets: HashMap::new(),
                cleanup_threshold: MAX_BUCKETS,
            }),
        }
    }
}

impl<K: Eq + Hash> RateLimiter<K> {
    /// Takes one token from a bucket.
    pub(crate) fn check(&self, key: K, rate: Rate) -> Result<RateLimitStatus, RateLimitExceeded> {
        self.check_at(key, rate, Instant::now())
    }

    fn check_at(
        &self,
        key: K,
        rate: Rate,
        now: Instant,
    ) -> Result<RateLimitStatus, RateLimitExceeded> {
        let mut kept = self.buckets.lock();
        let BucketMap {
            buckets,
            cleanup_threshold: most,
        } = &mut *kept;
        if buckets.len() >= *most {
            buckets.retain(|_, bucket| bucket.refilled(rate, now).tokens < rate.burst);
            // If none is full, the threshold is raised: scanning all of them for every request would cost more than
            // keeping them.
            *most = MAX_BUCKETS.max(buckets.len() * 2);
        }
        let bucket = buckets.entry(key).or_insert(Bucket {
            tokens: rate.burst,
            updated_at: now,
        });
        *bucket = bucket.refilled(rate, now);
        if bucket.tokens < 1.0 {
            return Err(bucket.exceeded(rate));
        }
        bucket.tokens -= 1.0;
        Ok(bucket.status(rate))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers above zero"
)]
impl Bucket {
    fn refilled(self, rate: Rate, now: Instant) -> Self {
        let passed = now.saturating_duration_since(self.updated_at).as_secs_f64();
        Self {
            tokens: (self.tokens + passed * rate.per_second).min(rate.burst),
            updated_at: now,
        }
    }

    fn exceeded(self, rate: Rate) -> RateLimitExceeded {
        let seconds = (1.0 - self.tokens) / rate.per_second.max(f64::MIN_POSITIVE);
        RateLimitExceeded {
            retry_after: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_mins(1)),
            status: self.status(rate),
        }
    }

    fn status(self, rate: Rate) -> RateLimitStatus {
        RateLimitStatus {
            limit: rate.burst as u64,
            remaining: self.tokens as u64,
            reset_seconds: ((rate.burst - self.tokens) / rate.per_second.max(f64::MIN_POSITIVE))
                .ceil() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_up_again() {
        let buckets = RateLimiter::default();
        let rate = Rate {
            per_second: 2.0,
            burst: 3.0,
        };
        let start = Instant::now();
        let left: Vec<_> = (0..3)
            .map(|_| buckets.check_at("a", rate, start).unwrap().remaining)
            .collect();
        assert_eq!(left, [2, 1, 0]);
        let empty = buckets.check_at("a", rate, start).unwrap_err();
        assert_eq!(empty.retry_after, Duration::from_millis(500));
        assert_eq!((empty.status.limit, empty.status.remaining), (3, 0));
        assert!(buckets.check_at("b", rate, start).is_ok());
        assert!(
            buckets
                .check_at("a", rate, start + Duration::from_millis(600))
                .is_ok()
        );
        assert_eq!(
            buckets
                .check_at("a", rate, start + Duration::from_mins(1))
                .unwrap()
                .remaining,
            2
        );
    }

    #[test]
    fn full_buckets_are_forgotten_when_there_are_many() {
        let buckets = RateLimiter::default();
        let rate = Rate {
            per_second: 1000.0,
            burst: 1.0,
        };
        let start = Instant::now();
        for key in 0..MAX_BUCKETS {
            buckets.check_at(key, rate, start).unwrap();
        }
        buckets
            .check_at(MAX_BUCKETS, rate, start + Duration::from_secs(1))
            .unwrap();
        assert_eq!(buckets.buckets.lock().buckets.len(), 1);
    }
}
