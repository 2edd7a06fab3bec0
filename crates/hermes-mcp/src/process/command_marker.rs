//! Marks the commands that this process runs, by a variable of their environment: what they leave running outside their
//! process group is found by it, and so is all of them once this process was killed. A process that clears its
//! environment escapes.

use std::{
    ffi::{OsStr, OsString},
    sync::atomic::{AtomicU64, Ordering},
};

use super::process_table;

pub const MARKER_VARIABLE: &str = "HERMES_COMMAND";

/// Tells the guard whose commands to kill. The guard cannot find out by itself: its host may be dead before it has begun.
pub const OWNER_VARIABLE: &str = "HERMES_COMMAND_OWNER";

static NEXT_MARKER: AtomicU64 = AtomicU64::new(0);

/// A marker that is unique for each command.
#[derive(Debug)]
pub struct CommandMarker(OsString);

impl CommandMarker {
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        let number = NEXT_MARKER.fetch_add(1, Ordering::Relaxed);
        Self(format!("{}{number}", CommandOwner::this_process().prefix()).into())
    }

    /// The variable for the command's environment.
    pub fn variable(&self) -> (&str, &OsStr) {
        (MARKER_VARIABLE, &self.0)
    }

    /// Kills what is left of the command.
    pub fn kill_marked(&self) {
        kill_processes(|marker| marker == self.0);
    }
}

/// The process that runs commands.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandOwner {
    pid: u32,
    start_time: u64,
}

impl CommandOwner {
    pub(super) fn this_process() -> Self {
        let pid = std::process::id();
        let start_time = process_table::start_time(pid).unwrap_or(0);
        Self { pid, start_time }
    }

    /// Reads what [`Self::variable_value`] has written.
    pub(super) fn from_variable() -> Option<Self> {
        let value = std::env::var(OWNER_VARIABLE).ok()?;
        let (pid, start_time) = value.split_once('-')?;
        Some(Self {
            pid: pid.parse().ok()?,
            start_time: start_time.parse().ok()?,
        })
    }

    pub(super) fn variable_value(self) -> String {
        format!("{}-{}", self.pid, self.start_time)
    }

    fn prefix(self) -> String {
        format!("{}-{}-", self.pid, self.start_time)
    }

    /// Kills all of its commands, if it has ended. Call it when a socket to it has closed.
    pub(super) fn kill_commands_if_ended(self) {
        if process_table::is_ending(self.pid, self.start_time) {
            let prefix = self.prefix();
            kill_processes(|marker| marker.as_encoded_bytes().starts_with(prefix.as_bytes()));
        }
    }
}

#[cfg(target_os = "linux")]
fn kill_processes(is_meant: impl Fn(&OsStr) -> bool) {
    // Processes forked during one round are found in the next.
    const ROUNDS: usize = 3;
    for _ in 0..ROUNDS {
        let killed = linux::processes().filter(|id| linux::kill_if_marked(*id, &is_meant));
        if killed.count() == 0 {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn kill_processes(_: impl Fn(&OsStr) -> bool) {}

#[cfg(target_os = "linux")]
mod linux {
    use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    pub(super) fn processes() -> impl Iterator<Item = i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// Kills a process if it has such a marker, and returns whether it did.
    pub(super) fn kill_if_marked(id: i32, is_meant: impl Fn(&OsStr) -> bool) -> bool {
        let path = format!("/proc/{id}/environ");
        let is_marked = || {
            let variables = fs::read(&path).unwrap_or_default();
            let mut variables = variables.split(|byte| *byte == 0);
            variables.any(|variable| {
                let value = variable.strip_prefix(super::MARKER_VARIABLE.as_bytes());
                let value = value.and_then(|value| value.strip_prefix(b"="));
                value.is_some_and(|value| is_meant(OsStr::from_bytes(value)))
            })
        };
        if !is_marked() {
            return false;
        }
        // The pidfd keeps the id from being reused between check and signal.
        let Some(held) = Pid::from_raw(id).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok())
        else {
            return false;
        };
        is_marked() && pidfd_send_signal(&held, Signal::KILL).is_ok()
    }
}
