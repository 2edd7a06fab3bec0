//! Processes that a server leaves behind.

use std::{
    io,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::behaviour::Grandchild;

/// The argument with which a testkit binary starts a detached process, prints its pid and exits.
pub const DETACH: &str = "--detach";

/// Starts a process that would live for a quarter of an hour.
pub(crate) fn spawn(kind: Grandchild) -> io::Result<u32> {
    match kind {
        Grandchild::Attached => start_sleep(),
        Grandchild::Detached => {
            let output = Command::new(own_binary()).arg(DETACH).output()?;
            let pid = String::from_utf8_lossy(&output.stdout);
            pid.trim()
                .parse()
                .map_err(|_| io::Error::other(format!("detaching failed: {output:?}")))
        }
    }
}

/// Leaves the session, starts a process and returns its pid; the caller exits, so that it has no parent.
pub fn detach() -> io::Result<u32> {
    rustix::process::setsid()?;
    start_sleep()
}

fn start_sleep() -> io::Result<u32> {
    let child = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(child.id())
}

/// The running program if it is one of ours, otherwise one that can be found.
fn own_binary() -> PathBuf {
    std::env::current_exe()
        .ok()
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("testkit-"))
        })
        .unwrap_or_else(|| crate::binary("testkit-stdio"))
}
