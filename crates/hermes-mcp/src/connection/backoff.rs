//! When a lost server is tried again.

use std::time::Duration;

use hermes_config::random::add_jitter;

/// Seconds before each attempt; after the last one the server is parked.
const DELAYS: [u64; 5] = [1, 2, 4, 8, 16];

/// The pause before the given attempt (counted from 1), or `None` when they are used up.
pub(super) fn delay(attempt: u32) -> Option<Duration> {
    let index = usize::try_from(attempt.checked_sub(1)?).ok()?;
    DELAYS
        .get(index)
        .map(|seconds| add_jitter(Duration::from_secs(*seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_attempts_and_then_none() {
        for (attempt, seconds) in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 16.0)] {
            let delay = delay(attempt).unwrap().as_secs_f64();
            assert!(
                (seconds * 0.8..=seconds * 1.2).contains(&delay),
                "{attempt}: {delay}"
            );
        }
        assert_eq!(delay(6), None);
    }
}
