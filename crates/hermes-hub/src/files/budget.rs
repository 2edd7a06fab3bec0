//! The limits of one search.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

const FILES: u64 = 200_000;
const BYTES: u64 = 2 << 30;
/// The line being searched may take up to a second more, and the total limit is five.
const TIME: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(crate) struct Budget {
    files: u64,
    bytes: u64,
    end: Instant,
    cancel: CancellationToken,
}

impl Budget {
    pub(crate) fn new(cancel: CancellationToken) -> Self {
        Self {
            files: FILES,
            bytes: BYTES,
            end: Instant::now() + TIME,
            cancel,
        }
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
        self.cancel.is_cancelled() || Instant::now() >= self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(files: u64, bytes: u64, time: Duration) -> Budget {
        Budget {
            files,
            bytes,
            end: Instant::now() + time,
            cancel: CancellationToken::new(),
        }
    }

    #[test]
    fn each_measure_ends_the_search_by_itself() {
        let mut few = budget(1, 100, TIME);
        assert!(few.take_file() && !few.take_file());
        assert!(few.take_bytes(100) && !few.take_bytes(1));
        assert!(!budget(1, 1, Duration::ZERO).take_file());
        let cancelled = budget(1, 1, TIME);
        cancelled.cancel.cancel();
        assert!(cancelled.is_over());
    }
}
