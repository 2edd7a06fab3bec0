//! Self-test of the isolation: of two temporary tenants, one tries to reach the other's files and processes and those
//! of the Hub. Each attempt is a process that confines itself as an agent does.

mod probes;
mod temporary_hub;

use std::{ffi::OsStr, io, os::unix::net::UnixStream, path::Path, process::ExitCode};

use self::{
    probes::{FORBIDDEN, NEEDED, OTHER_AGENT_SOCKET, ProbeMethod},
    temporary_hub::TemporaryHub,
};
use super::{isolation::ConfinementMode, process_runtime::ProcessRuntimeSetup};

/// The first version of Landlock that covers sockets in the file system.
const SOCKET_ABI: u32 = 9;

/// What was tried, and whether it worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelftestAttempt {
    pub what: &'static str,
    pub outcome: AttemptOutcome,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// A tenant can do what it must be able to do.
    Allowed,
    Denied,
    /// It reached a socket that this kernel cannot close to it. Nothing is said there without a key.
    ProtectedByKey,
    /// It reached something that is not its own.
    Breached,
    /// It cannot even use its own home.
    Unusable,
}

/// Tries everything, with these settings, in a directory of the Hub's that is empty.
pub fn run_selftest(
    setup: &ProcessRuntimeSetup,
    directory: &Path,
) -> io::Result<Vec<SelftestAttempt>> {
    let hub = TemporaryHub::start(setup, directory)?;
    let mut attempts = Vec::new();
    for probe in NEEDED {
        let outcome = if hub.succeeds(probe.method)? {
            AttemptOutcome::Allowed
        } else {
            AttemptOutcome::Unusable
        };
        attempts.push(SelftestAttempt {
            what: probe.what,
            outcome,
        });
    }
    for probe in FORBIDDEN {
        let outcome = if !hub.succeeds(probe.method)? {
            AttemptOutcome::Denied
        } else if probe.method == ProbeMethod::Socket(OTHER_AGENT_SOCKET)
            && cannot_close_sockets(setup)
        {
            AttemptOutcome::ProtectedByKey
        } else {
            AttemptOutcome::Breached
        };
        attempts.push(SelftestAttempt {
            what: probe.what,
            outcome,
        });
    }
    Ok(attempts)
}

/// Whether tenants of one user cannot be kept from each other's sockets: Landlock covers them only of late.
fn cannot_close_sockets(setup: &ProcessRuntimeSetup) -> bool {
    setup.isolation.mode != ConfinementMode::Off
        && setup
            .support
            .landlock
            .is_none_or(|level| level < SOCKET_ABI)
}

/// The hidden mode `hermes __reach SOCKET` of an attempt: ends well if it can connect there. Shells have no way to try that.
pub const CONNECT_ARGUMENT: &str = "__reach";

/// Connects to the socket in the second argument: a path, or an abstract name behind an `@`.
pub fn try_connect() -> ExitCode {
    let reached = std::env::args_os()
        .nth(2)
        .is_some_and(|to| can_connect(&to));
    if reached {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn can_connect(to: &OsStr) -> bool {
    #[cfg(target_os = "linux")]
    if let Some(name) = to.to_str().and_then(|to| to.strip_prefix('@')) {
        use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
        return SocketAddr::from_abstract_name(name)
            .and_then(|address| UnixStream::connect_addr(&address))
            .is_ok();
    }
    UnixStream::connect(to).is_ok()
}
