//! The recent output of a background process.

use std::collections::VecDeque;

use crate::tools::terminal::capture::{OutputCapture, strip_control_sequences};

/// Older output is dropped.
const MAX_LOG_BYTES: usize = 400_000;
/// Longer lines are matched in parts.
const MAX_LINE_BYTES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct OutputLog {
    bytes: VecDeque<u8>,
    /// Bytes that were dropped.
    forgotten: usize,
    /// The end of the output that was already returned.
    seen: usize,
    /// An incomplete line.
    line: Vec<u8>,
}

impl OutputLog {
    /// Adds output and returns the completed lines.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.bytes.extend(bytes);
        let excess = self.bytes.len().saturating_sub(MAX_LOG_BYTES);
        self.bytes.drain(..excess);
        self.forgotten += excess;
        let mut lines = Vec::new();
        for &byte in bytes {
            self.line.push(byte);
            if byte == b'\n' || self.line.len() > MAX_LINE_BYTES {
                lines.extend(self.take_line());
            }
        }
        lines
    }

    /// The line that was never completed.
    pub(super) fn take_line(&mut self) -> Option<String> {
        let line = strip_control_sequences(&std::mem::take(&mut self.line));
        let line = line.trim_end();
        (!line.is_empty()).then(|| line.to_owned())
    }

    pub(super) fn all(&self) -> String {
        let (first, second) = self.bytes.as_slices();
        strip_control_sequences(&[first, second].concat())
    }

    /// The output since the last call.
    pub(super) fn take_new_text(&mut self) -> String {
        let from = self
            .seen
            .saturating_sub(self.forgotten)
            .min(self.bytes.len());
        let mut capture = OutputCapture::default();
        capture.push(&self.bytes.range(from..).copied().collect::<Vec<u8>>());
        self.seen = self.forgotten + self.bytes.len();
        capture.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_handed_out_when_they_are_complete() {
        let mut log = OutputLog::default();
        assert_eq!(log.push(b"one\ntw"), ["one"]);
        assert_eq!(log.push(b"o\n\nthree"), ["two"]);
        assert_eq!(log.take_line().as_deref(), Some("three"));
        assert_eq!(log.all(), "one\ntwo\n\nthree");
    }

    #[test]
    fn new_text_is_shown_once_even_when_old_text_is_forgotten() {
        let mut log = OutputLog::default();
        log.push(b"one ");
        assert_eq!(log.take_new_text(), "one ");
        assert_eq!(log.take_new_text(), "");
        for _ in 0..5 {
            log.push(&vec![b'x'; 100_000]);
        }
        log.push(b"end");
        assert!(log.take_new_text().ends_with("xend"));
        assert!(log.all().len() <= MAX_LOG_BYTES);
    }
}
