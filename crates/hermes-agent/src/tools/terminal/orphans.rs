//! Kills processes that a command left running outside its process group: a daemon with its own session is still
//! recognised by an inherited variable. One that clears its environment escapes.

use std::{
    ffi::{OsStr, OsString},
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

const MARKER_VARIABLE: &str = "HERMES_COMMAND";

static NEXT_MARKER: AtomicU64 = AtomicU64::new(0);

/// A marker variable that is unique for each command.
pub(super) struct CommandMarker(OsString);

impl CommandMarker {
    pub(super) fn new() -> Self {
        let number = NEXT_MARKER.fetch_add(1, Ordering::Relaxed);
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = time.unwrap_or_default().as_nanos();
        Self(format!("{}-{number}-{time}", std::process::id()).into())
    }

    /// The variable for the command's environment.
    pub(super) fn variable(&self) -> (&str, &OsStr) {
        (MARKER_VARIABLE, &self.0)
    }

    #[cfg(target_os = "linux")]
    pub(super) fn kill_marked(&self) {
        // Processes forked during one round are found in the next.
        const ROUNDS: usize = 3;
        for _ in 0..ROUNDS {
            let found = linux::processes().filter(|id| linux::kill_if_marked(*id, &self.0));
            if found.count() == 0 {
                return;
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn kill_marked(&self) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    pub(super) fn processes() -> impl Iterator<Item = i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// Kills a process if it has the marker, and returns whether it did.
    pub(super) fn kill_if_marked(id: i32, mark: &OsStr) -> bool {
        let path = format!("/proc/{id}/environ");
        let is_marked = || {
            let variables = fs::read(&path).unwrap_or_default();
            let mut variables = variables.split(|byte| *byte == 0);
            variables.any(|variable| {
                let value = variable.strip_prefix(super::MARKER_VARIABLE.as_bytes());
                value.and_then(|value| value.strip_prefix(b"=")) == Some(mark.as_bytes())
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
