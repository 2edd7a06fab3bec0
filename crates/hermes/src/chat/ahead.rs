//! Type-ahead: input while the chat is busy. Entered lines are queued in order; `/stop` takes effect at once.

use std::collections::VecDeque;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    stdio::stdin,
};

/// The line that cancels the running work.
const STOP: &str = "/stop";
const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// What was typed and not read yet.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    lines: VecDeque<String>,
    /// The line that is not entered yet.
    begun: String,
    /// The beginning of a character or of a key's sequence.
    rest: Vec<u8>,
    /// Ctrl-D on an empty line, or the terminal is gone.
    has_ended: bool,
}

/// What the line editor starts with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// A line that was entered already.
    Entered(String),
    /// Text that is still being typed; mostly none.
    Text(String),
    /// End of input.
    End,
}

impl Ahead {
    /// Takes what was typed since the last time, without waiting. Returns whether it asks to stop.
    pub(crate) fn listen(&mut self) -> bool {
        let mut asks_to_stop = false;
        let mut bytes = [0; 1024];
        while !self.has_ended && is_typed() {
            match rustix::io::read(stdin(), &mut bytes) {
                Ok(0) => self.has_ended = true,
                Ok(length) => asks_to_stop |= self.take(&bytes[..length]),
                Err(_) => break,
            }
        }
        asks_to_stop
    }

    /// What comes next.
    pub(crate) fn next(&mut self) -> Beginning {
        if let Some(line) = self.lines.pop_front() {
            return Beginning::Entered(line);
        }
        if self.has_ended {
            return Beginning::End;
        }
        self.rest.clear();
        Beginning::Text(std::mem::take(&mut self.begun))
    }

    fn take(&mut self, bytes: &[u8]) -> bool {
        self.rest.extend_from_slice(bytes);
        let mut asks_to_stop = false;
        while let Some((key, length)) = first_key(&self.rest) {
            self.rest.drain(..length);
            asks_to_stop |= self.press(key);
        }
        asks_to_stop
    }

    fn press(&mut self, key: Key) -> bool {
        match key {
            Key::Enter if self.begun.ends_with('\\') => self.begun.push('\n'),
            Key::Enter => {
                let line = std::mem::take(&mut self.begun);
                if line.trim() == STOP {
                    return true;
                }
                self.lines.push_back(line);
            }
            Key::Back => {
                self.begun.pop();
            }
            Key::Clear => self.begun.clear(),
            Key::End if self.begun.is_empty() => self.has_ended = true,
            Key::Text(character) => self.begun.push(character),
            Key::End | Key::Other => {}
        }
        false
    }
}

fn is_typed() -> bool {
    let stdin = stdin();
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut waiting, Some(&NOW)).is_ok_and(|ready| ready > 0)
}

/// The keys that mean something without a line editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Enter,
    Back,
    Clear,
    End,
    Text(char),
    Other,
}

/// The first key and its length; nothing if it is not complete.
fn first_key(bytes: &[u8]) -> Option<(Key, usize)> {
    let key = match *bytes.first()? {
        b'\r' | b'\n' => Key::Enter,
        0x08 | 0x7f => Key::Back,
        0x15 => Key::Clear,
        0x04 => Key::End,
        0x1b => return Some((Key::Other, sequence(bytes)?)),
        b'\t' => Key::Text(' '),
        0..0x20 => Key::Other,
        _ => return character(bytes),
    };
    Some((key, 1))
}

/// The length of an arrow key's sequence and the like: `ESC [ 1 ; 5 A`, `ESC O P`, `ESC x`.
fn sequence(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'[' => {
            let end = bytes[2..].iter().position(|b| (b'@'..=b'~').contains(b))?;
            Some(end + 3)
        }
        b'O' => bytes.get(2).map(|_| 3),
        _ => Some(2),
    }
}

fn character(bytes: &[u8]) -> Option<(Key, usize)> {
    let chunk = bytes.utf8_chunks().next()?;
    if let Some(character) = chunk.valid().chars().next() {
        return Some((Key::Text(character), character.len_utf8()));
    }
    // Four bytes are the longest character: with fewer, its end may be on the way.
    let is_begun = chunk.invalid().len() == bytes.len() && bytes.len() < 4;
    (!is_begun).then(|| (Key::Other, chunk.invalid().len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Beginning {
        Beginning::Text(text.into())
    }

    fn entered(line: &str) -> Beginning {
        Beginning::Entered(line.into())
    }

    #[test]
    fn stop_is_heard_among_other_lines_and_is_none_itself() {
        let mut ahead = Ahead::default();
        assert!(!ahead.take(b"first\r/st"));
        assert!(ahead.take(b"op \rsecond\rthi"));
        assert_eq!(ahead.next(), entered("first"));
        assert_eq!(ahead.next(), entered("second"));
        assert_eq!(ahead.next(), text("thi"));
        assert_eq!(ahead.next(), text(""));
    }

    #[test]
    fn what_was_mistyped_can_be_taken_back() {
        let mut ahead = Ahead::default();
        ahead.take("nö\x7fo\x1b[1;5D\x1bOP\x1bb!".as_bytes());
        assert_eq!(ahead.next(), text("no!"));
        ahead.take(b"gone\x15kept");
        assert_eq!(ahead.next(), text("kept"));
    }

    #[test]
    fn a_character_that_arrives_in_two_parts_is_one() {
        let mut ahead = Ahead::default();
        ahead.take(&"ä".as_bytes()[..1]);
        ahead.take(&"ä".as_bytes()[1..]);
        ahead.take(b"\xff!");
        assert_eq!(ahead.next(), text("ä!"));
    }

    #[test]
    fn a_stroke_at_the_end_continues_the_line() {
        let mut ahead = Ahead::default();
        ahead.take(b"one\\\rtwo\r");
        assert_eq!(ahead.next(), entered("one\\\ntwo"));
    }

    #[test]
    fn ctrl_d_counts_on_an_empty_line_only() {
        let mut ahead = Ahead::default();
        ahead.take(b"a\x04");
        assert_eq!(ahead.next(), text("a"));
        ahead.take(b"last\r\x04");
        assert_eq!(ahead.next(), entered("last"));
        assert_eq!(ahead.next(), Beginning::End);
    }
}
