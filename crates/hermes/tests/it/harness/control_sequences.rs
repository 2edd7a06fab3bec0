//! Texts that would steer a terminal, and what must reach it instead.

use std::process::Command;

use crate::harness::terminal::Terminal;

/// The clipboard, the title, a cleared screen, a colour, an 8-bit sequence, a bell and a line drawn over.
pub(crate) const NASTY: &str = "A\u{1b}]52;c;cm0gLXJm\u{7}B\u{1b}]0;owned\u{7}C\u{1b}[2J\u{1b}[HD\u{1b}[31mE\u{9b}2JF\u{7}G\rH\u{8}";

/// Runs a command on a terminal; what reaches it is text, line ends, and colours of our own.
#[track_caller]
pub(crate) fn clean(command: Command, wanted: i32) -> String {
    let line = format!("{command:?}");
    let mut terminal = Terminal::start(command);
    let (code, screen) = terminal.end();
    assert_eq!(code, wanted, "{line}: {screen}");
    // What the program itself writes: the progress line, and colours.
    let mut rest = screen
        .replace("\r\u{1b}[2K", "")
        .replace("\r\u{1b}[J", "")
        .replace("\r\n", "\n");
    for code in ["0", "1", "2", "31;1", "32", "33", "0;1", "0;2", "0;36"] {
        rest = rest.replace(&format!("\u{1b}[{code}m"), "");
    }
    let steering = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    assert!(!rest.contains(steering), "{line}: {screen:?}");
    rest
}
