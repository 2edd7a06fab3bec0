//! The program on a real pseudo-terminal, with somebody who types; and texts that would steer a terminal.

use std::{
    fs::File,
    io::Write,
    process::{Child, Command},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{pty, test_home::TIMEOUT};

/// A program on a terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    /// How much of the screen was looked at.
    seen: usize,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Starts a command with a terminal as its stdin, stdout and stderr.
    pub(crate) fn start(command: Command) -> Self {
        let (child, keyboard) = pty::start(command, 100, 40);
        let screen = Arc::new(Mutex::new(String::new()));
        let output = keyboard.try_clone().unwrap();
        let written = screen.clone();
        let reader = std::thread::spawn(move || {
            pty::read_output(&output, |bytes| {
                let mut screen = written.lock().unwrap_or_else(PoisonError::into_inner);
                screen.push_str(&String::from_utf8_lossy(bytes));
            });
        });
        Self {
            child,
            keyboard,
            screen,
            seen: 0,
            reader,
        }
    }

    /// Waits until a text appears after what was waited for before.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> &mut Self {
        let found = hermes_testkit::wait_for(TIMEOUT, || self.screen()[self.seen..].find(text));
        let found = found.unwrap_or_else(|| panic!("no `{text}` in:\n{}", self.screen()));
        self.seen += found + text.len();
        self
    }

    /// Waits for a word with this text in it, such as an address.
    #[track_caller]
    pub(crate) fn word_with(&mut self, text: &str) -> String {
        let found = hermes_testkit::wait_for(TIMEOUT, || {
            let is_running = self.child.try_wait().unwrap().is_none();
            let screen = self.screen();
            // The last word may not be complete.
            let complete = screen.rsplit_once(char::is_whitespace);
            let mut words = complete.map_or("", |(words, _)| words).split_whitespace();
            let found = words.find(|word| word.contains(text)).map(str::to_owned);
            assert!(
                found.is_some() || is_running,
                "no word with `{text}` in:\n{screen}"
            );
            found
        });
        found.unwrap_or_else(|| panic!("no word with `{text}` in:\n{}", self.screen()))
    }

    /// Types.
    pub(crate) fn send(&mut self, keys: &str) -> &mut Self {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self
    }

    /// What Ctrl-C does while the program does not read keys.
    pub(crate) fn interrupt(&self) {
        let process = Pid::from_child(&self.child);
        kill_process(process, Signal::INT).unwrap();
    }

    /// Waits for the end: the exit code and all that was on the screen.
    #[track_caller]
    pub(crate) fn end(&mut self) -> (i32, String) {
        let screen = self.screen.clone();
        let code = pty::wait(&mut self.child, &self.reader, || text(&screen));
        (code.unwrap_or(-1), self.screen())
    }

    /// All that was written so far.
    pub(crate) fn screen(&self) -> String {
        text(&self.screen)
    }
}

fn text(screen: &Mutex<String>) -> String {
    let screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
    screen.clone()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The clipboard, the title, a cleared screen, a colour, an 8-bit sequence, a bell and a line drawn over.
pub(crate) const NASTY: &str = "A\u{1b}]52;c;cm0gLXJm\u{7}B\u{1b}]0;owned\u{7}C\u{1b}[2J\u{1b}[HD\u{1b}[31mE\u{9b}2JF\u{7}G\rH\u{8}";

/// Runs a command on a terminal; what reaches it is text, line ends, and colours of our own.
#[track_caller]
pub(crate) fn clean(command: Command, wanted: i32) -> String {
    let line = format!("{command:?}");
    let mut terminal = Terminal::start(command);
    let (code, screen) = terminal.end();
    assert_eq!(code, wanted, "{line}: {screen}");
    assert_clean(&line, &screen)
}

/// What reached a terminal is text, line ends, and colours of our own. Returns the text.
#[track_caller]
pub(crate) fn assert_clean(line: &str, screen: &str) -> String {
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
