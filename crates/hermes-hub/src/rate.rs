//! Rate limits with token buckets.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// When there are more buckets, full ones are dropped.
const KEPT: usize = 10_000;

/// Token buckets, one for each key.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    buckets: Mutex<Kept<K>>,
}

#[derive(Debug)]
struct Kept<K> {
    buckets: HashMap<K, Bucket>,
    /// With this many buckets, full ones are dropped.
    most: usize,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
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
}

/// The state of a limit, for response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Empty {
    pub(crate) wait: Duration,
    pub(crate) left: Left,
}

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self {
            buckets: Mutex::new(Kept {
                buckets: HashMap::new(),
                most: KEPT,
            }),
        }
    }
}

impl<K: Eq + Hash> Buckets<K> {
    /// Takes one token from a bucket.
    pub(crate) fn take(&self, key: K, rate: Rate) -> Result<Left, Empty> {
        self.take_at(key, rate, Instant::now())
    }

    fn take_at(&self, key: K, rate: Rate, now: Instant) -> Result<Left, Empty> {
        let mut kept = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { buckets, most } = &mut *kept;
        if buckets.len() >= *most {
            buckets.retain(|_, bucket| bucket.filled(rate, now).left < rate.burst);
            // If none is full, the threshold is raised: scanning all of them for every request would cost more than
            // keeping them.
            *most = KEPT.max(buckets.len() * 2);
        }
        let bucket = buckets.entry(key).or_insert(Bucket {
            left: rate.burst,
            at: now,
        });
        *bucket = bucket.filled(rate, now);
        if bucket.left < 1.0 {
            return Err(bucket.empty(rate));
        }
        bucket.left -= 1.0;
        Ok(bucket.left(rate))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers above zero"
)]
impl Bucket {
    fn filled(self, rate: Rate, now: Instant) -> Self {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        Self {
            left: (self.left + passed * rate.per_second).min(rate.burst),
            at: now,
        }
    }

    fn empty(self, rate: Rate) -> Empty {
        let seconds = (1.0 - self.left) / rate.per_second.max(f64::MIN_POSITIVE);
        Empty {
            wait: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_mins(1)),
            left: self.left(rate),
        }
    }

    fn left(self, rate: Rate) -> Left {
        Left {
            limit: rate.burst as u64,
            remaining: self.left as u64,
            reset_seconds: ((rate.burst - self.left) / rate.per_second.max(f64::MIN_POSITIVE))
                .ceil() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_up_again() {
        let buckets = Buckets::default();
        let rate = Rate {
            per_second: 2.0,
            burst: 3.0,
        };
        let start = Instant::now();
        let left: Vec<_> = (0..3)
            .map(|_| buckets.take_at("a", rate, start).unwrap().remaining)
            .collect();
        assert_eq!(left, [2, 1, 0]);
        let empty = buckets.take_at("a", rate, start).unwrap_err();
        assert_eq!(empty.wait, Duration::from_millis(500));
        assert_eq!((empty.left.limit, empty.left.remaining), (3, 0));
        assert!(buckets.take_at("b", rate, start).is_ok());
        assert!(
            buckets
                .take_at("a", rate, start + Duration::from_millis(600))
                .is_ok()
        );
        assert_eq!(
            buckets
                .take_at("a", rate, start + Duration::from_mins(1))
                .unwrap()
                .remaining,
            2
        );
    }

    #[test]
    fn full_buckets_are_forgotten_when_there_are_many() {
        let buckets = Buckets::default();
        let rate = Rate {
            per_second: 1000.0,
            burst: 1.0,
        };
        let start = Instant::now();
        for key in 0..KEPT {
            buckets.take_at(key, rate, start).unwrap();
        }
        buckets
            .take_at(KEPT, rate, start + Duration::from_secs(1))
            .unwrap();
        assert_eq!(buckets.buckets.lock().unwrap().buckets.len(), 1);
    }
}
