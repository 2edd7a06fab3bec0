//! Strips terminal control sequences and invisible characters from foreign text.
//!
//! Models, tools and servers write text that is shown to a person. Escape sequences, control characters, marks that
//! change the writing direction and invisible characters are dropped; what a carriage return would overwrite
//! stays, on a separate line.

use std::borrow::Cow;

/// Takes text in chunks; a sequence may span several of them.
#[derive(Debug, Default)]
pub struct ControlStripper {
    state: StripperState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum StripperState {
    #[default]
    Text,
    /// A carriage return that may belong to a line end.
    Return,
    /// After `ESC`, with or without characters between it and its end.
    Escape,
    /// After `ESC [`.
    Control,
    /// A string for the terminal, such as a title or a link.
    Payload,
    /// `ESC` inside of one: `ESC \` ends it.
    PayloadEscape,
}

const ESCAPE: char = '\x1b';
const BELL: char = '\x07';

impl ControlStripper {
    /// Appends what may be shown.
    pub fn push(&mut self, text: &str, out: &mut String) {
        for character in text.chars() {
            self.push_char(character, out);
        }
    }

    /// The end of the text: a carriage return that nothing followed is a line end.
    pub fn finish(&mut self, out: &mut String) {
        if self.state == StripperState::Return {
            out.push('\n');
        }
        self.state = StripperState::Text;
    }

    fn push_char(&mut self, character: char, out: &mut String) {
        self.state = match (self.state, character) {
            // No sequence continues over a line end: an unfinished one must not swallow the rest of the text.
            (
                StripperState::Return | StripperState::Payload | StripperState::PayloadEscape,
                '\n',
            ) => {
                out.push('\n');
                StripperState::Text
            }
            (StripperState::Return, _) => {
                out.push('\n');
                push_plain(character, out)
            }
            (StripperState::Escape, ']' | 'P' | 'X' | '^' | '_') => StripperState::Payload,
            // Characters between the escape and the end of a short sequence.
            (StripperState::Escape, ' '..='/') => StripperState::Escape,
            (StripperState::Escape, '[') | (StripperState::Control, ' '..='?') => {
                StripperState::Control
            }
            // The ends of sequences.
            (StripperState::Escape, '0'..='~')
            | (StripperState::Control, '@'..='~')
            | (StripperState::Payload, BELL | '\u{9c}')
            | (StripperState::PayloadEscape, '\\') => StripperState::Text,
            (StripperState::Payload | StripperState::PayloadEscape, ESCAPE) => {
                StripperState::PayloadEscape
            }
            (StripperState::Payload | StripperState::PayloadEscape, _) => StripperState::Payload,
            (StripperState::Text | StripperState::Escape | StripperState::Control, _) => {
                push_plain(character, out)
            }
        };
    }
}

fn push_plain(character: char, out: &mut String) -> StripperState {
    match character {
        '\r' => return StripperState::Return,
        ESCAPE => return StripperState::Escape,
        '\u{9b}' => return StripperState::Control,
        '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => return StripperState::Payload,
        '\n' | '\t' => out.push(character),
        '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
        _ if character.is_control() || is_invisible(character) => {}
        _ => out.push(character),
    }
    StripperState::Text
}

/// Direction marks, zero-width characters, and tag characters.
///
/// The joiners stay: many scripts and emoji need them.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' |
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// A whole text as it may be shown.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_unwanted = |c: char| {
        let is_break = matches!(c, '\u{2028}' | '\u{2029}');
        is_break || is_invisible(c) || (c.is_control() && !matches!(c, '\n' | '\t'))
    };
    if !text.contains(is_unwanted) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut stripper = ControlStripper::default();
    stripper.push(text, &mut out);
    stripper.finish(&mut out);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_go_whole() {
        for (text, left) in [
            ("a\x1b[31mb\x1b[0mc", "abc"),
            ("a\x1b[2J\x1b[1;1Hb", "ab"),
            ("a\x1b]0;title\x07b", "ab"),
            ("a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
            ("a\x1b]52;c;cm0gLXJm\x07b", "ab"),
            ("a\x1bPq#0\x1b\\b", "ab"),
            ("a\x1b(0b\x1bcc\x1b#8d", "abcd"),
            ("a\u{9b}31mb", "ab"),
            ("a\u{9d}0;title\u{9c}b", "ab"),
            ("a\x1b\x1b[31mb", "ab"),
            ("a\u{9b}\u{9b}1mb\x1b", "ab"),
            ("\x1b[2字", "字"),
            ("cut off \x1b[12", "cut off "),
        ] {
            assert_eq!(printable(text), left, "{text:?}");
        }
    }

    #[test]
    fn a_sequence_may_come_in_pieces() {
        let text = "a\x1b[31mb\x1b]0;t\x1b\\c\r\nd";
        for split in 0..text.len() {
            let (mut stripper, mut out) = (ControlStripper::default(), String::new());
            stripper.push(&text[..split], &mut out);
            stripper.push(&text[split..], &mut out);
            stripper.finish(&mut out);
            assert_eq!(out, "abc\nd", "split at {split}");
        }
    }

    #[test]
    fn an_unfinished_sequence_does_not_swallow_the_next_line() {
        assert_eq!(printable("a\x1b]0;title\nb"), "a\nb");
        assert_eq!(printable("a\x1b[31\nb"), "a\nb");
        assert_eq!(printable("a\x1b[31äb"), "aäb");
    }

    #[test]
    fn a_carriage_return_overwrites_nothing() {
        assert_eq!(printable("rm -rf /\rls      "), "rm -rf /\nls      ");
        assert_eq!(printable("a\r\nb\r"), "a\nb\n");
        assert_eq!(printable("abc\x08\x08d"), "abcd");
    }

    #[test]
    fn direction_marks_and_hidden_letters_go_and_joiners_stay() {
        assert_eq!(printable("a\u{202e}cba\u{202c}\u{2066}x\u{2069}"), "acbax");
        assert_eq!(printable("a\u{200b}b\u{feff}\u{e0041}"), "ab");
        let family = "👩\u{200d}👧";
        assert_eq!(printable(family), family);
        assert_eq!(printable("tab\tand\0nul\x7f"), "tab\tandnul");
    }
}
