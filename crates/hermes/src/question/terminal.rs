//! The terminal itself: one line with or without echo, single keys, and its size.
//!
//! Ctrl-C arrives as a character here. The signal would be lost once the asynchronous part of a command has taken it
//! over, and a question must always be possible to leave.

use std::{cell::RefCell, io};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    stdio::{stderr, stdin},
    termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
    },
};

use tokio_util::sync::CancellationToken;

use super::write_message;

/// Whether typed characters are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Echo {
    On,
    Off,
}

pub(super) const CTRL_C: u8 = 3;

/// Asks for one line. `None`: the person pressed Ctrl-C or Ctrl-D.
pub(super) fn read_line(prompt: &str, echo: Echo) -> io::Result<Option<String>> {
    let mode = TerminalMode::change(|settings| {
        settings.local_modes.remove(LocalModes::ISIG);
        // A chat that waits for an answer has them off.
        settings
            .local_modes
            .insert(LocalModes::ICANON | LocalModes::ECHO);
        // Ctrl-C ends the line, and is then its last character.
        settings.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
        if echo == Echo::Off {
            settings.local_modes.remove(LocalModes::ECHO);
        }
    })?;
    write_message(prompt)?;
    let mut line = Vec::new();
    let is_complete = loop {
        let mut bytes = [0; 1024];
        let count = read(&mut bytes)?;
        line.extend_from_slice(&bytes[..count]);
        match line.last() {
            _ if count == 0 => break false,
            Some(b'\n') => break true,
            Some(&CTRL_C) => break false,
            _ => {}
        }
    };
    drop(mode);
    if echo == Echo::Off || !is_complete {
        write_message("\n")?;
    }
    Ok(is_complete.then(|| String::from_utf8_lossy(&line).trim_end().to_owned()))
}

/// Single keys without echo, until dropped.
pub(super) struct Keyboard {
    _mode: TerminalMode,
}

impl Keyboard {
    pub(super) fn open() -> io::Result<Self> {
        let mode = TerminalMode::change(|settings| {
            let modes = LocalModes::ISIG | LocalModes::ICANON | LocalModes::ECHO;
            settings.local_modes.remove(modes);
            settings.special_codes[SpecialCodeIndex::VMIN] = 1;
            settings.special_codes[SpecialCodeIndex::VTIME] = 0;
        })?;
        Ok(Self { _mode: mode })
    }

    /// Waits for at least one byte. None means that the terminal is gone.
    #[expect(
        clippy::unused_self,
        reason = "reads as intended only while the mode is set"
    )]
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = [0; 64];
        let count = read(&mut bytes)?;
        Ok(bytes[..count].to_vec())
    }
}

/// Columns and rows; a usual size where the terminal does not tell.
pub(super) fn terminal_size() -> (usize, usize) {
    match tcgetwinsize(stderr()).or_else(|_| tcgetwinsize(stdin())) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// Changed settings of the terminal; dropped, the old ones are back.
struct TerminalMode {
    before: Termios,
}

impl TerminalMode {
    fn change(change: impl FnOnce(&mut Termios)) -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut settings = before.clone();
        change(&mut settings);
        tcsetattr(stdin(), OptionalActions::Now, &settings)?;
        Ok(Self { before })
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        // There is nothing left to try if this fails.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

thread_local! {
    /// What ends the questions that this thread asks.
    static STOP: RefCell<Option<CancellationToken>> = const { RefCell::new(None) };
}

/// How often an open question checks for cancellation.
const CANCEL_POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Asks questions that end, as if the terminal were gone, when the token is cancelled.
pub(super) fn with_cancellation<T>(stop: CancellationToken, ask: impl FnOnce() -> T) -> T {
    let before = STOP.replace(Some(stop));
    let answer = ask();
    STOP.set(before);
    answer
}

/// Waits for a key. `false`: the question is to end.
fn wait_for_key() -> io::Result<bool> {
    let Some(stop) = STOP.with_borrow(Clone::clone) else {
        return Ok(true);
    };
    loop {
        if stop.is_cancelled() {
            return Ok(false);
        }
        let keyboard = stdin();
        let mut keys = [PollFd::new(&keyboard, PollFlags::IN)];
        match poll(&mut keys, Some(&CANCEL_POLL_INTERVAL)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

fn read(bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        if !wait_for_key()? {
            return Ok(0);
        }
        match rustix::io::read(stdin(), &mut *bytes) {
            Err(Errno::INTR) => {}
            // What a terminal says once its other end is closed.
            Err(Errno::IO) => return Ok(0),
            other => return Ok(other?),
        }
    }
}
