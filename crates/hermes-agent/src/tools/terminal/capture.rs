//! Captures the output of a command: its head and its tail.

use std::collections::VecDeque;

const HEAD_CHARS: usize = 20_000;
const TAIL_CHARS: usize = 30_000;
/// A character takes up to four bytes, and some are removed again.
const BYTES_PER_CHARACTER: usize = 5;

#[derive(Debug, Default)]
pub(in crate::tools) struct OutputCapture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Dropped bytes between head and tail.
    left_out: usize,
}

impl OutputCapture {
    pub(in crate::tools) fn push(&mut self, bytes: &[u8]) {
        let room = (HEAD_CHARS * BYTES_PER_CHARACTER)
            .saturating_sub(self.head.len())
            .min(bytes.len());
        let (head, tail) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let excess = self
            .tail
            .len()
            .saturating_sub(TAIL_CHARS * BYTES_PER_CHARACTER);
        self.tail.drain(..excess);
        self.left_out += excess;
    }

    /// The output as text, at most 50,000 characters of it.
    pub(in crate::tools) fn render(self) -> String {
        let mut tail = Vec::from(self.tail);
        if self.left_out == 0 {
            let mut all = self.head;
            all.append(&mut tail);
            let text = strip_control_sequences(&all);
            let length = text.chars().count();
            if length <= HEAD_CHARS + TAIL_CHARS {
                return text;
            }
            return join_ends(
                &text,
                &text,
                &format!("{} characters", length - HEAD_CHARS - TAIL_CHARS),
            );
        }
        let (head, tail) = (
            strip_control_sequences(&self.head),
            strip_control_sequences(&tail),
        );
        join_ends(
            &head,
            &tail,
            &format!("more than {} characters", self.left_out / 4),
        )
    }
}

fn join_ends(head: &str, tail: &str, left_out: &str) -> String {
    let head_end = head
        .char_indices()
        .nth(HEAD_CHARS)
        .map_or(head.len(), |(at, _)| at);
    let tail_start = tail
        .char_indices()
        .rev()
        .nth(TAIL_CHARS - 1)
        .map_or(0, |(at, _)| at);
    format!(
        "{}\n[… {left_out} left out; write the output to a file to see all of it …]\n{}",
        &head[..head_end],
        &tail[tail_start..]
    )
}

/// The text as on a screen: without control sequences, and only the last state of a line that was
/// overwritten.
pub(in crate::tools) fn strip_control_sequences(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut result = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut characters),
            '\r' => {
                while characters.peek() == Some(&'\r') {
                    characters.next();
                }
                if !matches!(characters.peek(), Some('\n') | None) {
                    let line = result.rfind('\n').map_or(0, |at| at + 1);
                    result.truncate(line);
                }
            }
            '\u{8}' if !result.ends_with('\n') => {
                result.pop();
            }
            '\n' | '\t' => result.push(character),
            _ if character.is_control() => {}
            _ => result.push(character),
        }
    }
    result
}

fn skip_sequence(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.next() {
        // Ends with a letter or the like.
        Some('[') => while characters.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
        // Ends with a bell, or with another escape and a backslash.
        Some(']' | 'P' | '_' | '^') => {
            while let Some(character) = characters.next() {
                if character == '\u{7}'
                    || (character == '\u{1b}' && characters.next_if_eq(&'\\').is_some())
                {
                    break;
                }
            }
        }
        Some('(' | ')' | '#') => {
            characters.next();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(bytes: &[u8]) -> String {
        let mut capture = OutputCapture::default();
        for part in bytes.chunks(777) {
            capture.push(part);
        }
        capture.render()
    }

    #[test]
    fn up_to_the_limit_everything_is_shown() {
        let text = "ä".repeat(50_000);
        assert_eq!(rendered(text.as_bytes()), text);
    }

    #[test]
    fn beyond_it_head_and_tail_are() {
        for size in [50_001, 2_000_000] {
            let text = format!("BEGIN{}END", "x".repeat(size - 8));
            let shown = rendered(text.as_bytes());
            assert!(shown.starts_with("BEGINx") && shown.ends_with("xEND"));
            assert!(shown.contains("left out"));
            assert!(shown.chars().count() < 50_200);
        }
    }

    #[test]
    fn control_sequences_are_taken_out() {
        assert_eq!(
            strip_control_sequences(
                b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;u\x1b\\y\x1b(B"
            ),
            "red xy"
        );
        assert_eq!(strip_control_sequences(b"a\r\nb\x07\n"), "a\nb\n");
    }

    #[test]
    fn a_line_written_over_shows_its_last_state() {
        assert_eq!(
            strip_control_sequences(b"start\n10%\r50%\r100%\ndone"),
            "start\n100%\ndone"
        );
        assert_eq!(strip_control_sequences(b"ab\x08c"), "ac");
    }
}
