//! The tool `reach`, which tries what a confined server must not do, and says what the kernel made of it. It is there
//! only where a behaviour names it: `way` is how, `target` what to get at.

use std::{
    io,
    net::{TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    process::Command,
};

use serde_json::Value;

use super::{content, request::ScriptRequest};

/// Tries one way to something; the error is the kernel's own.
pub(super) fn probe_sandbox(request: &ScriptRequest) -> Value {
    let text = |name| request.argument(name).as_str().unwrap_or_default();
    let target = text("target");
    let tried = match text("way") {
        "read" => std::fs::read_to_string(target),
        "write" => std::fs::write(target, "written").map(|()| "written".to_owned()),
        "tcp" => TcpStream::connect(target).map(|_| "connected".to_owned()),
        "udp" => UdpSocket::bind(target).map(|_| "bound".to_owned()),
        "unix" => UnixStream::connect(target).map(|_| "connected".to_owned()),
        "pair" => UnixStream::pair().map(|_| "made".to_owned()),
        "child" => read_in_a_child(target),
        "call" => forbidden_call(),
        "namespace" => new_user_namespace(target),
        other => Err(io::Error::other(format!("there is no way `{other}`"))),
    };
    match tried {
        Ok(text) => content::text(text),
        Err(error) => content::failure(&error.to_string()),
    }
}

/// Has another program read the file, which has left the server's session.
fn read_in_a_child(target: &str) -> io::Result<String> {
    let output = Command::new("setsid").args(["cat", target]).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

/// A call about no process at all: ESRCH, unless the call itself is refused.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no safe way to ask for it")]
fn forbidden_call() -> io::Result<String> {
    // SAFETY: there is no process 0 to detach from, so the kernel does nothing but answer.
    match unsafe { libc::ptrace(libc::PTRACE_DETACH, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok("done".to_owned()),
    }
}

/// Asks for a user namespace in a way that the kernel finds invalid, unless the call itself is refused.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no safe way to ask for it")]
fn new_user_namespace(call: &str) -> io::Result<String> {
    let flags = libc::CLONE_NEWUSER | libc::CLONE_FS;
    let made = match call {
        // SAFETY: a process with several threads gets no such namespace, and nothing is changed.
        "unshare" => libc::c_long::from(unsafe { libc::unshare(flags) }),
        // SAFETY: these two flags exclude each other, so that there never is a new process.
        "clone" => unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) },
        // SAFETY: arguments of no size are invalid, so that there never is a new process.
        "clone3" => unsafe { libc::syscall(libc::SYS_clone3, 0, 0) },
        other => return Err(io::Error::other(format!("there is no call `{other}`"))),
    };
    match made {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok("made".to_owned()),
    }
}

#[cfg(not(target_os = "linux"))]
fn new_user_namespace(_: &str) -> io::Result<String> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn forbidden_call() -> io::Result<String> {
    Err(io::ErrorKind::Unsupported.into())
}
