//! The terminal itself: one line with or without echo, single keys, and its size.
//!
//! Ctrl-C arrives as a character here. The signal would be lost once the asynchronous part of a command has taken it
//! over, and a question must always be possible to leave.

use std::io::{self, PipeReader, PipeWriter};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    stdio::{stderr, stdin},
    termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
    },
};

use super::say;

/// Whether typed characters are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Echo {
    On,
    Off,
}

pub(super) const CTRL_C: u8 = 3;

/// Whether a question can be taken back while it is open.
#[derive(Debug)]
pub(super) struct Stop(Option<PipeReader>);

impl Stop {
    /// It stays until it is answered.
    pub(super) const NEVER: Self = Self(None);

    /// It ends, as if the person had left, when the other end is dropped.
    pub(super) fn when_dropped() -> io::Result<(PipeWriter, Self)> {
        let (stop, writer) = io::pipe()?;
        Ok((writer, Self(Some(stop))))
    }
}

/// Asks for one line. `None`: the person pressed Ctrl-C or Ctrl-D, or the question was taken back.
pub(super) fn read_line(prompt: &str, echo: Echo, stop: &Stop) -> io::Result<Option<String>> {
    let mode = Mode::change(|settings| {
        settings.local_modes.remove(LocalModes::ISIG);
        // Ctrl-C ends the line, and is then its last character.
        settings.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
        if echo == Echo::Off {
            settings.local_modes.remove(LocalModes::ECHO);
        }
    })?;
    say(prompt)?;
    let mut line = Vec::new();
    let is_complete = loop {
        let mut bytes = [0; 1024];
        let count = read(&mut bytes, stop)?;
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
        say("\n")?;
    }
    Ok(is_complete.then(|| String::from_utf8_lossy(&line).trim_end().to_owned()))
}

/// Single keys without echo, until dropped.
pub(super) struct Keyboard {
    _mode: Mode,
}

impl Keyboard {
    pub(super) fn open() -> io::Result<Self> {
        let mode = Mode::change(|settings| {
            let modes = LocalModes::ISIG | LocalModes::ICANON | LocalModes::ECHO;
            settings.local_modes.remove(modes);
            settings.special_codes[SpecialCodeIndex::VMIN] = 1;
            settings.special_codes[SpecialCodeIndex::VTIME] = 0;
        })?;
        Ok(Self { _mode: mode })
    }

    /// Waits for at least one byte. None means that the terminal is gone, or that the question was taken back.
    #[expect(
        clippy::unused_self,
        reason = "reads as intended only while the mode is set"
    )]
    pub(super) fn read(&self, stop: &Stop) -> io::Result<Vec<u8>> {
        let mut bytes = [0; 64];
        let count = read(&mut bytes, stop)?;
        Ok(bytes[..count].to_vec())
    }
}

/// Columns and rows; a usual size where the terminal does not tell.
pub(super) fn size() -> (usize, usize) {
    match tcgetwinsize(stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// Changed settings of the terminal; dropped, the old ones are back.
struct Mode {
    before: Termios,
}

impl Mode {
    fn change(change: impl FnOnce(&mut Termios)) -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut settings = before.clone();
        change(&mut settings);
        tcsetattr(stdin(), OptionalActions::Now, &settings)?;
        Ok(Self { before })
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        // There is nothing left to try if this fails.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

fn read(bytes: &mut [u8], stop: &Stop) -> io::Result<usize> {
    loop {
        if let Some(stop) = &stop.0 {
            let keyboard = stdin();
            let mut waits = [
                PollFd::new(&keyboard, PollFlags::IN),
                PollFd::new(stop, PollFlags::IN),
            ];
            match poll(&mut waits, None) {
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
                Ok(_) if !waits[1].revents().is_empty() => return Ok(0),
                Ok(_) => {}
            }
        }
        match rustix::io::read(stdin(), &mut *bytes) {
            Err(Errno::INTR) => {}
            // What a terminal says once its other end is closed.
            Err(Errno::IO) => return Ok(0),
            other => return Ok(other?),
        }
    }
}
