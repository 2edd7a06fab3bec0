//! The program on a real pseudo-terminal, with somebody who types.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags, open},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

/// How long an expected text may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program on a terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    /// How much of the screen was looked at.
    seen: usize,
}

impl Terminal {
    /// Starts a command with a terminal as its stdin, stdout and stderr.
    pub(crate) fn start(mut command: Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let size = Winsize {
            ws_row: 40,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&ours, size).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs: OwnedFd = open(
            name.as_c_str(),
            OFlags::RDWR | OFlags::NOCTTY,
            Mode::empty(),
        )
        .unwrap();
        let stdio = || Stdio::from(theirs.try_clone().unwrap());
        let child = command
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .unwrap();
        // The command holds copies of the terminal that would keep it open.
        drop(command);
        let keyboard = File::from(ours);
        let screen = Arc::new(Mutex::new(String::new()));
        let mut reader = keyboard.try_clone().unwrap();
        let written = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of the program shows as an error here.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                let mut screen = written.lock().unwrap_or_else(PoisonError::into_inner);
                screen.push_str(&text);
            }
        });
        Self {
            child,
            keyboard,
            screen,
            seen: 0,
        }
    }

    /// Waits until a text appears after what was waited for before.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> &mut Self {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if let Some(found) = screen[self.seen..].find(text) {
                self.seen += found + text.len();
                return self;
            }
            assert!(began.elapsed() < PATIENCE, "no `{text}` in:\n{screen}");
            std::thread::sleep(Duration::from_millis(10));
        }
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
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            let screen = self.screen();
            assert!(began.elapsed() < PATIENCE, "still running:\n{screen}");
            std::thread::sleep(Duration::from_millis(10));
        };
        // What was written last may still be on its way.
        std::thread::sleep(Duration::from_millis(50));
        (status.code().unwrap_or(-1), self.screen())
    }

    fn screen(&self) -> String {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        screen.clone()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
