//! What one search may cost, and when it has to stop.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// Most files of one search.
const FILES: u64 = 200_000;
/// Most bytes of one search.
const BYTES: u64 = 2 << 30;
/// Longest time of one search.
const TIME: Duration = Duration::from_secs(5);

/// What is left for a search.
#[derive(Debug)]
pub(crate) struct Budget {
    files: u64,
    bytes: u64,
    end: Instant,
    cancel: CancellationToken,
}

impl Budget {
    /// Everything, from now on.
    pub(crate) fn new(cancel: CancellationToken) -> Self {
        Self {
            files: FILES,
            bytes: BYTES,
            end: Instant::now() + TIME,
            cancel,
        }
    }

    /// Takes one more file; false if nothing is left.
    pub(crate) fn take_file(&mut self) -> bool {
        if self.files == 0 || self.is_over() {
            return false;
        }
        self.files -= 1;
        true
    }

    /// Takes bytes; false if nothing is left.
    pub(crate) fn take_bytes(&mut self, bytes: u64) -> bool {
        if bytes > self.bytes || self.is_over() {
            return false;
        }
        self.bytes -= bytes;
        true
    }

    /// Whether time is up, or nobody waits for the answer any more.
    pub(crate) fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || Instant::now() >= self.end
    }

    /// A smaller one, to see what happens at its end.
    #[cfg(test)]
    pub(crate) fn of(files: u64, bytes: u64, time: Duration) -> Self {
        Self {
            files,
            bytes,
            end: Instant::now() + time,
            cancel: CancellationToken::new(),
        }
    }
}
