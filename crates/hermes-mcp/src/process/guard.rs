//! The guard: a single-threaded program that forks a keeper for every server the host wants started.
//!
//! It knows nothing about servers. It waits on its socket for the keepers' ends of fresh socket pairs, forks for each,
//! and ends when the host closes the socket. Keepers do not depend on it once they are forked.

use std::{
    ffi::CStr,
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::ExitCode,
};

use rustix::stdio::dup2_stdin;

use super::{
    keeper,
    wire::{self, Report},
};

/// Runs the guard on the socket that is this program's stdin, until the host closes it.
///
/// Call this first thing in `main`, before anything opens a file or starts a thread. It refuses to run beside other
/// threads. It returns in the guard and, later, once in every keeper; leave `main` with the code in each case.
pub fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    refuse_other_threads()?;
    close_inherited_files();
    let host = rustix::stdio::stdin().try_clone_to_owned()?;
    dup2_stdin(File::open("/dev/null")?)?;
    leave_the_terminal();
    ignore_signals();

    loop {
        let mut order = wire::NEW_KEEPER;
        let (count, sockets) = wire::receive_with_files(host.as_fd(), &mut order)?;
        if count == 0 {
            return Ok(());
        }
        for socket in sockets {
            match fork() {
                Ok(Side::Guard) => {}
                Ok(Side::Keeper) => {
                    // While a keeper held it, the host could not tell that the guard is gone.
                    drop(host);
                    return keeper::run(UnixStream::from(socket));
                }
                Err(error) => refuse(socket, &error),
            }
        }
    }
}

/// Tells the host why there is no keeper. It may have gone away, and then nobody needs to know.
fn refuse(socket: OwnedFd, error: &io::Error) {
    let _ = UnixStream::from(socket).write_all(&Report::failed(error).line());
}

fn refuse_other_threads() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
        return Err(io::Error::other("the guard must be the only thread"));
    }
    Ok(())
}

/// Neither Ctrl-C nor a closed terminal may reach the guard and its keepers, nor a server read from the terminal. The
/// working directory is left, so as not to keep a file system busy.
fn leave_the_terminal() {
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    name_process(c"mcp-guard");
}

/// Sets the name that `ps` and `killall` know, so that `killall hermes` spares those who clean up.
pub(super) fn name_process(name: &CStr) {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(name);
    #[cfg(not(target_os = "linux"))]
    let _ = name;
}

/// Closes what the host's own parent left open, so that no server holds a lock or pipe it has never heard of.
#[cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "there is no safe way to close unknown files")
)]
fn close_inherited_files() {
    #[cfg(target_os = "linux")]
    // SAFETY: at the start of `main` nothing in this process owns a file but the three standard ones.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Ending is the host's business alone. An ignored SIGCHLD also makes the kernel reap the keepers.
#[expect(unsafe_code, reason = "ignoring a signal has no safe interface")]
fn ignore_signals() {
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGPIPE,
        libc::SIGCHLD,
    ] {
        // SAFETY: SIG_IGN is a valid disposition; no handler is installed.
        let _ = unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

enum Side {
    Guard,
    Keeper,
}

#[expect(
    unsafe_code,
    reason = "a fork without exec makes a keeper in microseconds"
)]
fn fork() -> io::Result<Side> {
    // SAFETY: `serve` has checked that this is the only thread, so no lock can be held by a thread that the child lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Keeper),
        _ => Ok(Side::Guard),
    }
}
