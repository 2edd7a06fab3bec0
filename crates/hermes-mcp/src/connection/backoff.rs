//! When a lost server is tried again.

use std::time::Duration;

use hermes_config::random::random_number;

/// Seconds before each attempt; after the last one the server is parked.
const DELAYS: [u64; 5] = [1, 2, 4, 8, 16];

/// The pause before the given attempt (counted from 1), or `None` when they are used up.
pub(super) fn delay(attempt: u32) -> Option<Duration> {
    let index = usize::try_from(attempt.checked_sub(1)?).ok()?;
    DELAYS
        .get(index)
        .map(|seconds| add_jitter(Duration::from_secs(*seconds)))
}

/// Spreads a pause by ±20 %, so that servers lost together are not all retried at the same moment.
pub(super) fn add_jitter(pause: Duration) -> Duration {
    let random = random_number();
    let permille = u32::try_from(random % 401).unwrap_or(200) + 800;
    pause * permille / 1000
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

    #[test]
    fn pauses_differ() {
        let pauses: std::collections::HashSet<_> = (0..50)
            .map(|_| add_jitter(Duration::from_secs(10)))
            .collect();
        assert!(pauses.len() > 10);
    }
}
