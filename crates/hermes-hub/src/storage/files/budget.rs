//! The limits of one search.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

const MAX_FILES: u64 = 200_000;
const MAX_BYTES: u64 = 2 << 30;
/// The line being searched may take up to a second more, and the total limit is five.
const TIME_LIMIT: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(crate) struct SearchBudget {
    files: u64,
    bytes: u64,
    deadline: Instant,
    cancel: CancellationToken,
}

impl SearchBudget {
    pub(crate) fn new(cancel: CancellationToken) -> Self {
        Self {
            files: MAX_FILES,
            bytes: MAX_BYTES,
            deadline: Instant::now() + TIME_LIMIT,
            cancel,
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Uses up one file; false if none is left.
    pub(crate) fn take_file(&mut self) -> bool {
        if self.files == 0 || self.is_over() {
            return false;
        }
        self.files -= 1;
        true
    }

    /// Uses up bytes; false if none are left.
    pub(crate) fn take_bytes(&mut self, bytes: u64) -> bool {
        if bytes > self.bytes || self.is_over() {
            return false;
        }
        self.bytes -= bytes;
        true
    }

    /// Whether time is up or the search was cancelled.
    pub(crate) fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || Instant::now() >= self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(files: u64, bytes: u64, time: Duration) -> SearchBudget {
        SearchBudget {
            files,
            bytes,
            deadline: Instant::now() + time,
            cancel: CancellationToken::new(),
        }
    }

    #[test]
    fn each_measure_ends_the_search_by_itself() {
        let mut few = budget(1, 100, TIME_LIMIT);
        assert!(few.take_file() && !few.take_file());
        assert!(few.take_bytes(100) && !few.take_bytes(1));
        assert!(!budget(1, 1, Duration::ZERO).take_file());
        let cancelled = budget(1, 1, TIME_LIMIT);
        cancelled.cancel.cancel();
        assert!(cancelled.is_over());
    }
}
