//! Bytes to lines, in bounded memory, and the last few of them.

use std::{borrow::Cow, collections::VecDeque, io::BufRead};

/// Where a line is cut.
pub(super) const MAX_LINE_BYTES: usize = 8 * 1024;

/// How many lines are kept for error messages.
pub(super) const TAIL_LINES: usize = 20;

/// Stands at the end of a line that was cut.
const CUT: &str = " … (cut)";

/// Makes lines of chunks.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    line: Vec<u8>,
    is_cut: bool,
}

impl LineSplitter {
    /// Calls `each` with every line that `chunk` completes.
    pub(super) fn feed(&mut self, chunk: &[u8], mut each: impl FnMut(&str)) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let from = rest;
            // Reading a slice does not fail.
            let count = rest.skip_until(b'\n').unwrap_or(from.len());
            let piece = &from[..count];
            match piece.strip_suffix(b"\n") {
                Some(end) => {
                    self.extend(end);
                    each(&self.unfinished());
                    self.line.clear();
                    self.is_cut = false;
                }
                None => self.extend(piece),
            }
        }
    }

    fn extend(&mut self, piece: &[u8]) {
        let room = MAX_LINE_BYTES - self.line.len();
        self.line.extend_from_slice(&piece[..room.min(piece.len())]);
        self.is_cut |= piece.len() > room;
    }

    /// The line as far as it has come.
    pub(super) fn unfinished(&self) -> Cow<'_, str> {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let line = String::from_utf8_lossy(line);
        if self.is_cut {
            Cow::Owned(line.into_owned() + CUT)
        } else {
            line
        }
    }
}

/// The last lines of a server.
#[derive(Debug, Default)]
pub(super) struct LineTail {
    lines: VecDeque<String>,
    /// A prompt has no line end, but says why a server hangs.
    unfinished: String,
}

impl LineTail {
    pub(super) fn push(&mut self, line: &str) {
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_owned());
    }

    pub(super) fn set_unfinished(&mut self, line: &str) {
        line.clone_into(&mut self.unfinished);
    }

    /// Oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        let unfinished = Some(&self.unfinished).filter(|line| !line.is_empty());
        self.lines.iter().chain(unfinished).cloned().collect()
    }
}
