//! The deadline of one call: progress restarts the timeout, a question to a person pauses it, and ten times the timeout
//! is the most a call may take.

use std::time::{Duration, Instant};

/// A call takes at most this many times its timeout, however much progress it reports.
const STRETCH: u32 = 10;

#[derive(Debug)]
pub(super) struct Clock {
    began: Instant,
    limit: Duration,
    due: Instant,
    last_due: Instant,
    paused: u32,
    paused_at: Instant,
}

impl Clock {
    pub(super) fn start(limit: Duration) -> Self {
        let began = Instant::now();
        Self {
            began,
            limit,
            due: began + limit,
            last_due: began + limit * STRETCH,
            paused: 0,
            paused_at: began,
        }
    }

    pub(super) fn restart(&mut self) {
        self.due = Instant::now() + self.limit;
    }

    /// A person is being asked; questions may overlap.
    pub(super) fn pause(&mut self) {
        if self.paused == 0 {
            self.paused_at = Instant::now();
        }
        self.paused += 1;
    }

    pub(super) fn resume(&mut self) {
        self.paused = self.paused.saturating_sub(1);
        if self.paused == 0 {
            self.forgive(self.paused_at.elapsed());
        }
    }

    /// Leaves time out of the count.
    pub(super) fn forgive(&mut self, time: Duration) {
        self.due += time;
        self.last_due += time;
    }

    /// Resolves when the time is up, with what was used and what was allowed.
    pub(super) async fn run_out(&self) -> (Duration, Duration) {
        if self.paused > 0 {
            return std::future::pending().await;
        }
        let due = self.due.min(self.last_due);
        tokio::time::sleep_until(due.into()).await;
        let allowed = if due == self.last_due {
            self.limit * STRETCH
        } else {
            self.limit
        };
        (self.began.elapsed(), allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn progress_restarts_the_clock_but_not_beyond_ten_times_its_limit() {
        let mut clock = Clock::start(Duration::from_millis(40));
        for _ in 0..30 {
            std::thread::sleep(Duration::from_millis(15));
            clock.restart();
        }
        let (_, allowed) = clock.run_out().await;
        assert_eq!(allowed, Duration::from_millis(400));
    }

    #[tokio::test]
    async fn a_question_stops_the_clock() {
        let mut clock = Clock::start(Duration::from_millis(30));
        clock.pause();
        assert!(
            tokio::time::timeout(Duration::from_millis(80), clock.run_out())
                .await
                .is_err()
        );
        clock.resume();
        let (_, allowed) = clock.run_out().await;
        assert_eq!(allowed, Duration::from_millis(30));
    }
}
