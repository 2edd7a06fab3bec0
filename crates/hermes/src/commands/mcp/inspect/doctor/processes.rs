//! Whether something was left behind by a process that is no more.

use std::{io::ErrorKind, os::unix::net::UnixStream, path::Path};

use hermes_config::Home;
use hermes_mcp::process::records::{self, ProcessState};

use super::Check;
use crate::commands::state::pluralize;

const PROCESS: &str = "process";
const SOCKET: &str = "socket";

pub(super) fn check(home: &Home) -> Vec<Check> {
    let run_dir = home.run_dir();
    let mut checks = Vec::new();
    let processes = records::list_processes(&run_dir);
    for orphan in processes
        .iter()
        .filter(|process| process.state == ProcessState::Orphaned)
    {
        let message = format!(
            "process {} still runs although hermes process {} is gone",
            orphan.pid, orphan.host_pid
        );
        checks.push(
            Check::warn(PROCESS, message)
                .about(&orphan.server)
                .fix(format!("run `hermes mcp ps --kill {}`", orphan.server)),
        );
    }
    if checks.is_empty() {
        let message = match processes.len() {
            0 => "no local server runs".to_owned(),
            number => format!("{} looked after", pluralize(number, "local server")),
        };
        checks.push(Check::ok(PROCESS, message));
    }
    for path in std::fs::read_dir(&run_dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
    {
        let is_socket = path
            .extension()
            .is_some_and(|extension| extension == "sock");
        if is_socket && is_dead(&path) {
            checks.push(
                Check::warn(SOCKET, format!("nobody answers at `{}`", path.display()))
                    .fix("`hermes mcp status` clears it away"),
            );
        }
    }
    checks
}

fn is_dead(path: &Path) -> bool {
    let target = std::fs::read_link(path).unwrap_or_else(|_| path.to_owned());
    UnixStream::connect(target).is_err_and(|error| {
        matches!(
            error.kind(),
            ErrorKind::ConnectionRefused | ErrorKind::NotFound
        )
    })
}
