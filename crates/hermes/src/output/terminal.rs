//! The person's terminal: its size, and its state while nobody types a line.

use std::io;

use rustix::{
    stdio::{stdin, stdout},
    termios::{
        LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
        tcgetwinsize, tcsetattr,
    },
};

/// Columns and rows; a usual size where the terminal does not tell.
pub(crate) fn terminal_size() -> (usize, usize) {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// The terminal's settings, put back when dropped.
pub(crate) struct TerminalModeGuard(Termios);

impl TerminalModeGuard {
    /// As they are now.
    pub(crate) fn save_current() -> io::Result<Self> {
        Ok(Self(tcgetattr(stdin())?))
    }

    /// Typed characters are not shown but wait to be read later. Ctrl-C still sends its signal.
    pub(crate) fn disable_echo() -> io::Result<Self> {
        let before = Self::save_current()?;
        let mut quiet = before.0.clone();
        quiet
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ICANON);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Now, &quiet)?;
        Ok(before)
    }
}

impl Drop for TerminalModeGuard {
    fn drop(&mut self) {
        // There is nothing left to try if this fails.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

/// Discards input typed before a question appeared: it cannot be meant as the answer.
pub(crate) fn discard_typed_input() {
    let _ = tcflush(stdin(), QueueSelector::IFlush);
}
