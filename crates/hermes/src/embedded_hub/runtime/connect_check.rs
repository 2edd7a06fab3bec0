//! The hidden mode `hermes __reach SOCKET`: ends well if it can connect there. Shells have no way to try that.

use std::{ffi::OsStr, os::unix::net::UnixStream, process::ExitCode};

/// The argument that turns the program into this.
pub const ARGUMENT: &str = "__reach";

/// Connects to the socket in the second argument: a path, or an abstract name behind an `@`.
pub fn run() -> ExitCode {
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
