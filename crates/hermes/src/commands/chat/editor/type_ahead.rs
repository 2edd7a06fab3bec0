//! Type-ahead: input while the chat is busy. Entered lines are queued in order; `/stop` takes effect at once.

use std::collections::VecDeque;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    stdio::stdin,
};

/// The line that cancels the running work.
const STOP: &str = "/stop";
const NO_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// What was typed and not read yet.
#[derive(Debug, Default)]
pub(crate) struct TypeAhead {
    lines: VecDeque<String>,
    /// The line that is not entered yet.
    unfinished: String,
    /// The beginning of a character or of a key's sequence.
    rest: Vec<u8>,
    /// Ctrl-D on an empty line, or the terminal is gone.
    has_ended: bool,
}

/// What the line editor starts with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EditorStart {
    /// A line that was entered already.
    Entered(String),
    /// Text that is still being typed; mostly none.
    Text(String),
    /// End of input.
    End,
}

impl TypeAhead {
    /// Takes what was typed since the last time, without waiting. Returns whether it asks to stop.
    pub(crate) fn read_pending(&mut self) -> bool {
        let mut asks_to_stop = false;
        let mut bytes = [0; 1024];
        while !self.has_ended && has_pending_input() {
            match rustix::io::read(stdin(), &mut bytes) {
                Ok(0) => self.has_ended = true,
                Ok(length) => asks_to_stop |= self.push_bytes(&bytes[..length]),
                Err(_) => break,
            }
        }
        asks_to_stop
    }

    /// What comes next.
    pub(crate) fn next_input(&mut self) -> EditorStart {
        if let Some(line) = self.lines.pop_front() {
            return EditorStart::Entered(line);
        }
        if self.has_ended {
            return EditorStart::End;
        }
        self.rest.clear();
        EditorStart::Text(std::mem::take(&mut self.unfinished))
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> bool {
        self.rest.extend_from_slice(bytes);
        let mut asks_to_stop = false;
        while let Some((key, length)) = parse_key(&self.rest) {
            self.rest.drain(..length);
            asks_to_stop |= self.apply_key(key);
        }
        asks_to_stop
    }

    fn apply_key(&mut self, key: TypeAheadKey) -> bool {
        match key {
            TypeAheadKey::Enter if self.unfinished.ends_with('\\') => self.unfinished.push('\n'),
            TypeAheadKey::Enter => {
                let line = std::mem::take(&mut self.unfinished);
                if line.trim() == STOP {
                    return true;
                }
                self.lines.push_back(line);
            }
            TypeAheadKey::Back => {
                self.unfinished.pop();
            }
            TypeAheadKey::Clear => self.unfinished.clear(),
            TypeAheadKey::End if self.unfinished.is_empty() => self.has_ended = true,
            TypeAheadKey::Text(character) => self.unfinished.push(character),
            TypeAheadKey::End | TypeAheadKey::Other => {}
        }
        false
    }
}

fn has_pending_input() -> bool {
    let stdin = stdin();
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut waiting, Some(&NO_WAIT)).is_ok_and(|ready| ready > 0)
}

/// The keys that mean something without a line editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypeAheadKey {
    Enter,
    Back,
    Clear,
    End,
    Text(char),
    Other,
}

/// The first key and its length; nothing if it is not complete.
fn parse_key(bytes: &[u8]) -> Option<(TypeAheadKey, usize)> {
    let key = match *bytes.first()? {
        b'\r' | b'\n' => TypeAheadKey::Enter,
        0x08 | 0x7f => TypeAheadKey::Back,
        0x15 => TypeAheadKey::Clear,
        0x04 => TypeAheadKey::End,
        0x1b => return Some((TypeAheadKey::Other, escape_sequence_length(bytes)?)),
        b'\t' => TypeAheadKey::Text(' '),
        0..0x20 => TypeAheadKey::Other,
        _ => return parse_character(bytes),
    };
    Some((key, 1))
}

/// The length of an arrow key's sequence and the like: `ESC [ 1 ; 5 A`, `ESC O P`, `ESC x`.
fn escape_sequence_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'[' => {
            let end = bytes[2..].iter().position(|b| (b'@'..=b'~').contains(b))?;
            Some(end + 3)
        }
        b'O' => bytes.get(2).map(|_| 3),
        _ => Some(2),
    }
}

fn parse_character(bytes: &[u8]) -> Option<(TypeAheadKey, usize)> {
    let chunk = bytes.utf8_chunks().next()?;
    if let Some(character) = chunk.valid().chars().next() {
        return Some((TypeAheadKey::Text(character), character.len_utf8()));
    }
    // Four bytes are the longest character: with fewer, its end may be on the way.
    let is_begun = chunk.invalid().len() == bytes.len() && bytes.len() < 4;
    (!is_begun).then(|| (TypeAheadKey::Other, chunk.invalid().len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> EditorStart {
        EditorStart::Text(text.into())
    }

    fn entered(line: &str) -> EditorStart {
        EditorStart::Entered(line.into())
    }

    #[test]
    fn stop_is_heard_among_other_lines_and_is_none_itself() {
        let mut type_ahead = TypeAhead::default();
        assert!(!type_ahead.push_bytes(b"first\r/st"));
        assert!(type_ahead.push_bytes(b"op \rsecond\rthi"));
        assert_eq!(type_ahead.next_input(), entered("first"));
        assert_eq!(type_ahead.next_input(), entered("second"));
        assert_eq!(type_ahead.next_input(), text("thi"));
        assert_eq!(type_ahead.next_input(), text(""));
    }

    #[test]
    fn what_was_mistyped_can_be_taken_back() {
        let mut type_ahead = TypeAhead::default();
        type_ahead.push_bytes("nö\x7fo\x1b[1;5D\x1bOP\x1bb!".as_bytes());
        assert_eq!(type_ahead.next_input(), text("no!"));
        type_ahead.push_bytes(b"gone\x15kept");
        assert_eq!(type_ahead.next_input(), text("kept"));
    }

    #[test]
    fn a_character_that_arrives_in_two_parts_is_one() {
        let mut type_ahead = TypeAhead::default();
        type_ahead.push_bytes(&"ä".as_bytes()[..1]);
        type_ahead.push_bytes(&"ä".as_bytes()[1..]);
        type_ahead.push_bytes(b"\xff!");
        assert_eq!(type_ahead.next_input(), text("ä!"));
    }

    #[test]
    fn a_stroke_at_the_end_continues_the_line() {
        let mut type_ahead = TypeAhead::default();
        type_ahead.push_bytes(b"one\\\rtwo\r");
        assert_eq!(type_ahead.next_input(), entered("one\\\ntwo"));
    }

    #[test]
    fn ctrl_d_counts_on_an_empty_line_only() {
        let mut type_ahead = TypeAhead::default();
        type_ahead.push_bytes(b"a\x04");
        assert_eq!(type_ahead.next_input(), text("a"));
        type_ahead.push_bytes(b"last\r\x04");
        assert_eq!(type_ahead.next_input(), entered("last"));
        assert_eq!(type_ahead.next_input(), EditorStart::End);
    }
}
