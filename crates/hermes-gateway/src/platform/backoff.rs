//! Pauses between attempts to connect: doubled each time, with jitter.

use std::time::Duration;

use hermes_config::random::add_jitter;

/// The pauses of one connection.
#[derive(Debug, Clone)]
pub(crate) struct ReconnectBackoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl ReconnectBackoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The connection was made: the next failure begins with the first pause.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    /// The pause after another failure.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        add_jitter(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again() {
        let mut backoff = ReconnectBackoff::new(Duration::from_secs(1), Duration::from_mins(1));
        let pauses: Vec<f64> = (0..9).map(|_| backoff.next_pause().as_secs_f64()).collect();
        for (pause, expected) in pauses.iter().zip([1., 2., 4., 8., 16., 32., 60., 60., 60.]) {
            assert!((pause / expected - 1.).abs() < 0.21, "{pauses:?}");
        }
        backoff.reset();
        assert!(backoff.next_pause() < Duration::from_millis(1_300));
    }
}
