//! Puts characters on the terminal one by one and breaks lines between words; truncates lines of untrusted text.
//!
//! A character is written the moment it is known. When a word turns out not to fit, its beginning is taken from the
//! end of the line and written again on the next one; nothing else on the screen moves.

use std::fmt::Write;

use hermes_agent::printable::printable;
use unicode_width::UnicodeWidthChar;

use super::style::Style;

/// Where the next character goes.
#[derive(Debug, Clone)]
pub(crate) struct WordWrap {
    /// Columns that may be used; the last one of the terminal stays free, since a cursor behind it cannot go back.
    width: usize,
    column: usize,
    /// Where lines that continue this one begin.
    indent: usize,
    /// How often the line was broken.
    rows: usize,
    /// What the terminal is set to.
    style: Style,
    /// The word at the end of the line, and how wide it is.
    word: Vec<(char, Style)>,
    word_width: usize,
}

const TAB: usize = 4;
/// Narrower lines are not worth breaking.
const MIN_WIDTH: usize = 16;

impl WordWrap {
    pub(crate) fn new(columns: usize) -> Self {
        Self {
            width: columns.saturating_sub(1).max(MIN_WIDTH),
            column: 0,
            indent: 0,
            rows: 0,
            style: Style::PLAIN,
            word: Vec::new(),
            word_width: 0,
        }
    }

    pub(crate) fn column(&self) -> usize {
        self.column
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// How many times the present line was broken.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Lines that continue this one begin here.
    pub(crate) fn set_indent(&mut self) {
        self.indent = self.column.min(self.width / 2);
        self.word.clear();
        self.word_width = 0;
    }

    /// Writes one character, breaking the line before it or before its word if it has to be.
    pub(crate) fn put(&mut self, character: char, style: Style, out: &mut String) {
        if character == '\t' {
            for _ in 0..TAB {
                self.put(' ', style, out);
            }
            return;
        }
        let needed = character.width().unwrap_or(0);
        if character == ' ' {
            self.word.clear();
            self.word_width = 0;
            if self.column >= self.width {
                // The break takes the place of the space.
                return;
            }
        } else if self.column + needed > self.width {
            self.break_line(out);
        }
        self.write(character, style, out);
        self.column += needed;
        if character != ' ' {
            self.word.push((character, style));
            self.word_width += needed;
        }
    }

    /// Writes one character of a line that only the terminal breaks.
    pub(crate) fn put_unbroken(&mut self, character: char, style: Style, out: &mut String) {
        self.write(character, style, out);
        self.column += character.width().unwrap_or(0);
    }

    fn break_line(&mut self, out: &mut String) {
        let begins_at = self.column - self.word_width;
        let moves = begins_at > self.indent;
        if moves && self.word_width > 0 {
            let _ = write!(out, "\x1b[{}D\x1b[K", self.word_width);
        }
        out.push('\n');
        self.rows += 1;
        let style = self.style;
        if style != Style::PLAIN {
            Style::PLAIN.write_sequence(out);
        }
        out.extend(std::iter::repeat_n(' ', self.indent));
        if style != Style::PLAIN {
            style.write_sequence(out);
        }
        self.column = self.indent;
        if moves {
            for (character, style) in std::mem::take(&mut self.word) {
                self.write(character, style, out);
                self.word.push((character, style));
            }
            self.column += self.word_width;
        } else {
            self.word.clear();
            self.word_width = 0;
        }
    }

    fn write(&mut self, character: char, style: Style, out: &mut String) {
        if style != self.style {
            style.write_sequence(out);
            self.style = style;
        }
        out.push(character);
    }

    /// Resets the style, so that others may write.
    pub(crate) fn reset_style(&mut self, out: &mut String) {
        if self.style != Style::PLAIN {
            Style::PLAIN.write_sequence(out);
            self.style = Style::PLAIN;
        }
    }

    pub(crate) fn end_line(&mut self, columns: usize, out: &mut String) {
        self.reset_style(out);
        out.push('\n');
        *self = Self::new(columns);
    }

    /// Goes back to where the line was at `mark`, and takes away what was written since.
    pub(crate) fn rewind_to(&mut self, mark: &Self, out: &mut String) {
        self.reset_style(out);
        out.push('\r');
        if self.rows > mark.rows {
            let _ = write!(out, "\x1b[{}A", self.rows - mark.rows);
        }
        if mark.column > 0 {
            let _ = write!(out, "\x1b[{}C", mark.column);
        }
        out.push_str("\x1b[J");
        *self = mark.clone();
        self.style = Style::PLAIN;
    }
}

/// The first line that says something, not wider than this, without tabs.
pub(crate) fn first_line(text: &str, width: usize) -> String {
    let text = printable(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    truncate_line(&line.unwrap_or_default().replace('\t', " "), width)
}

/// As much of a line as fits, with an ellipsis where something is missing.
pub(crate) fn truncate_line(line: &str, width: usize) -> String {
    use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
    if line.width() <= width {
        return line.to_owned();
    }
    let mut available = width.saturating_sub(1);
    let mut cut = String::new();
    for character in line.chars() {
        let needed = character.width().unwrap_or(0);
        if needed > available {
            break;
        }
        available -= needed;
        cut.push(character);
    }
    if width > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(columns: u16, text: &str, hang: usize) -> String {
        let (mut wrap, mut out) = (WordWrap::new(columns.into()), String::new());
        for (index, character) in text.chars().enumerate() {
            if index == hang {
                wrap.set_indent();
            }
            wrap.put(character, Style::PLAIN, &mut out);
        }
        let mut terminal =
            vt100::Parser::new(20.try_into().unwrap(), columns.try_into().unwrap(), 0);
        terminal.process(out.replace('\n', "\r\n").as_bytes());
        let contents = terminal.screen().contents();
        // The space at which a line was broken stays behind it.
        let lines: Vec<&str> = contents.lines().map(str::trim_end).collect();
        lines.join("\n")
    }

    #[test]
    fn a_word_that_does_not_fit_moves_to_the_next_line() {
        assert_eq!(
            shown(20, "the quick brown fox jumps over", 0),
            "the quick brown fox\njumps over"
        );
        assert_eq!(
            shown(20, "the quick brown foxtrot", 0),
            "the quick brown\nfoxtrot"
        );
    }

    #[test]
    fn a_word_longer_than_the_line_is_broken() {
        assert_eq!(
            shown(20, "https://example.com/a/b/c", 0),
            "https://example.com\n/a/b/c"
        );
    }

    #[test]
    fn continued_lines_hang() {
        assert_eq!(
            shown(20, "- one two three four five six", 2),
            "- one two three\n  four five six"
        );
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(
            shown(20, "日本語 日本語日本語日", 0),
            "日本語\n日本語日本語日"
        );
    }

    #[test]
    fn one_line_is_the_first_that_says_something() {
        assert_eq!(first_line("\n  \n a\tb \nc", 80), "a b");
        assert_eq!(first_line("abcdef", 4), "abc…");
        assert_eq!(first_line("日本語", 4), "日…");
    }
}
