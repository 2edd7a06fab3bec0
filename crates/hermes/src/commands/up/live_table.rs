//! Draws frames over each other, in place and without a screen of their own: what was there before stays above.
//!
//! Each frame is one write that hides the cursor at its beginning and shows it at its end. So nothing flickers, and
//! no way out of the program, not even `kill -9`, leaves a terminal without a cursor.

use std::fmt::Write as _;

use super::frame::{Frame, FrameLine, TerminalSize};
use crate::output::Output;

/// Begins a frame: terminals that can hold back the picture until the end do so.
const BEGIN_FRAME: &str = "\x1b[?2026h\x1b[?25l";
const END_FRAME: &str = "\x1b[?25h\x1b[?2026l";
const CLEAR_TO_END_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// The table on the terminal.
#[derive(Debug, Default)]
pub(super) struct LiveTable {
    frame: Frame,
    /// What is on the terminal now; the cursor is on the line after it.
    drawn: Vec<FrameLine>,
    is_outdated: bool,
}

impl LiveTable {
    /// Shows a frame. One that looks like the last costs nothing.
    pub(super) fn draw(&mut self, output: Output, frame: Frame) {
        self.frame = frame;
        let size = terminal_size();
        let lines = self.frame.lines(output, size);
        if lines != self.drawn || self.is_outdated {
            self.replace("", lines, output, size);
        }
    }

    /// Puts a message above the table, where it stays.
    pub(super) fn print_message(&mut self, output: Output, text: &str) {
        let size = terminal_size();
        let lines = self.frame.lines(output, size);
        self.replace(text, lines, output, size);
    }

    /// The next frame is drawn whether or not it looks like the last.
    pub(super) fn invalidate(&mut self) {
        self.is_outdated = true;
    }

    fn replace(
        &mut self,
        message: &str,
        lines: Vec<FrameLine>,
        output: Output,
        size: TerminalSize,
    ) {
        output.draw(&transition(&self.drawn, message, &lines, size));
        self.drawn = lines;
        self.is_outdated = false;
    }
}

/// What leads from one picture to the next.
fn transition(
    drawn: &[FrameLine],
    message: &str,
    lines: &[FrameLine],
    size: TerminalSize,
) -> String {
    // A terminal that has become narrower has wrapped what was wider.
    let columns = size.columns.max(1);
    let height: usize = drawn
        .iter()
        .map(|line| line.width.div_ceil(columns).max(1))
        .sum();
    let mut text = BEGIN_FRAME.to_owned();
    text.push('\r');
    if height > 0 {
        let _ = write!(text, "\x1b[{height}A");
    }
    let message = message
        .lines()
        .map(|line| line.replace(char::is_control, " "));
    for line in message.chain(lines.iter().map(|line| line.text.clone())) {
        text.push_str(&line);
        text.push_str(CLEAR_TO_END_OF_LINE);
        text.push_str("\r\n");
    }
    text.push_str(CLEAR_BELOW);
    text.push_str(END_FRAME);
    text
}

fn terminal_size() -> TerminalSize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    match size {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => TerminalSize {
            columns: usize::from(size.ws_col),
            lines: usize::from(size.ws_row),
        },
        _ => TerminalSize {
            columns: 80,
            lines: 24,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: TerminalSize = TerminalSize {
        columns: 20,
        lines: 24,
    };

    fn line(text: &str) -> FrameLine {
        FrameLine {
            text: text.into(),
            width: text.len(),
        }
    }

    #[test]
    fn the_first_frame_leaves_alone_what_is_above() {
        let text = transition(&[], "", &[line("a")], SIZE);
        assert_eq!(text, format!("{BEGIN_FRAME}\ra\x1b[K\r\n\x1b[J{END_FRAME}"));
    }

    #[test]
    fn the_next_one_goes_back_to_where_the_last_began() {
        let text = transition(&[line("a"), line("b")], "", &[line("c")], SIZE);
        assert_eq!(
            text,
            format!("{BEGIN_FRAME}\r\x1b[2Ac\x1b[K\r\n\x1b[J{END_FRAME}")
        );
    }

    #[test]
    fn lines_that_a_smaller_terminal_has_wrapped_count_for_what_they_take() {
        let drawn = [line(&"x".repeat(45)), line("")];
        let text = transition(&drawn, "", &[], SIZE);
        assert!(text.contains("\x1b[4A"), "{text:?}");
    }

    #[test]
    fn every_frame_shows_the_cursor_that_it_hides() {
        let text = transition(&[], "said", &[line("a")], SIZE);
        assert!(text.find("\x1b[?25l") < text.find("said"));
        assert!(text.find("\x1b[?25h") > text.find("a\x1b"));
    }
}
