//! The deadline of one call: progress restarts the timeout, a question to a person pauses it, and ten times the timeout
//! is the most a call may take.

use std::time::Duration;

use tokio::time::Instant;

/// A call takes at most this many times its timeout, however much progress it reports.
const MAX_TIMEOUT_FACTOR: u32 = 10;

#[derive(Debug)]
pub(super) struct CallDeadline {
    started_at: Instant,
    limit: Duration,
    deadline: Instant,
    final_deadline: Instant,
    pause_count: u32,
    paused_at: Instant,
}

impl CallDeadline {
    pub(super) fn start(limit: Duration) -> Self {
        let began = Instant::now();
        Self {
            started_at: began,
            limit,
            deadline: began + limit,
            final_deadline: began + limit * MAX_TIMEOUT_FACTOR,
            pause_count: 0,
            paused_at: began,
        }
    }

    pub(super) fn restart(&mut self) {
        self.deadline = Instant::now() + self.limit;
    }

    /// A person is being asked; questions may overlap.
    pub(super) fn pause(&mut self) {
        if self.pause_count == 0 {
            self.paused_at = Instant::now();
        }
        self.pause_count += 1;
    }

    pub(super) fn resume(&mut self) {
        self.pause_count = self.pause_count.saturating_sub(1);
        if self.pause_count == 0 {
            self.extend(self.paused_at.elapsed());
        }
    }

    /// Leaves time out of the count.
    pub(super) fn extend(&mut self, time: Duration) {
        self.deadline += time;
        self.final_deadline += time;
    }

    /// Resolves when the time is up, with what was used and what was allowed.
    pub(super) async fn expired(&self) -> (Duration, Duration) {
        if self.pause_count > 0 {
            return std::future::pending().await;
        }
        let due = self.deadline.min(self.final_deadline);
        tokio::time::sleep_until(due).await;
        let allowed = if due == self.final_deadline {
            self.limit * MAX_TIMEOUT_FACTOR
        } else {
            self.limit
        };
        (self.started_at.elapsed(), allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn progress_restarts_the_clock_but_not_beyond_ten_times_its_limit() {
        let mut clock = CallDeadline::start(Duration::from_millis(40));
        for _ in 0..30 {
            tokio::time::advance(Duration::from_millis(15)).await;
            clock.restart();
        }
        let (_, allowed) = clock.expired().await;
        assert_eq!(allowed, Duration::from_millis(400));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_stops_the_clock() {
        let mut clock = CallDeadline::start(Duration::from_millis(30));
        clock.pause();
        assert!(
            tokio::time::timeout(Duration::from_millis(80), clock.expired())
                .await
                .is_err()
        );
        clock.resume();
        let (_, allowed) = clock.expired().await;
        assert_eq!(allowed, Duration::from_millis(30));
    }
}
