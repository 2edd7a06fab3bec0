//! The guard: parent of all servers of a host. It ensures that nothing of their process trees stays behind.
//!
//! It is a program of its own with a single thread, so that it outlives the host and can start servers in the cheap way
//! that shares memory until `exec`. Above it sits the watchdog, which does nothing but wait for the guard: should somebody
//! kill the guard, all that it guarded falls to the watchdog and is killed.

mod event_loop;
mod launch;
mod mark;
mod tree;

use std::{
    ffi::CStr,
    fs::File,
    io,
    os::fd::OwnedFd,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use rustix::{
    process::{Pid, Signal, WaitOptions, kill_process, wait},
    stdio::dup2_stdin,
};

use super::{command_marker::CommandOwner, process_table};

/// How long to wait between two rounds of SIGKILL.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the guard on the socket that is this program's stdin, until the host has closed it and no server is left.
///
/// Call this first thing in `main`, before anything opens a file or starts a thread. It refuses to run beside other
/// threads. It returns twice, in the watchdog and in the guard; leave `main` with the code in each case.
pub fn run() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn start() -> io::Result<()> {
    refuse_other_threads()?;
    close_inherited_files();
    let host = rustix::stdio::stdin().try_clone_to_owned()?;
    // Somebody may have typed the hidden command.
    rustix::net::sockopt::socket_type(&host)?;
    dup2_stdin(File::open("/dev/null")?)?;
    detach_from_terminal();
    // Servers must not pass for somebody whom the host asks.
    let _ = crate::process::descendants::lower_lock_limit();
    reset_signals()?;
    match fork()? {
        ForkSide::Guard => guard(host),
        ForkSide::Watchdog(guard) => {
            // While the watchdog held it, the host could not tell that the guard is gone.
            drop(host);
            run_watchdog(guard)
        }
    }
}

fn guard(host: OwnedFd) -> io::Result<()> {
    let commands = CommandOwner::from_variable();
    name_process(c"mcp-guard");
    // Its own group: what is sent to the watchdog's group is not for both.
    let _ = rustix::process::setpgid(None, None);
    become_subreaper()?;
    let served = crate::process::guard::event_loop::run_event_loop(host);
    kill_all_children();
    if let Some(commands) = commands {
        commands.kill_commands_if_ended();
    }
    served
}

fn run_watchdog(guard: Pid) -> io::Result<()> {
    name_process(c"mcp-sentry");
    become_subreaper()?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, _))) if pid == guard => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    kill_all_children();
    Ok(())
}

/// Descendants whose parent ends become children of this process. Other systems than Linux do not offer that.
fn become_subreaper() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Kills until there is no child left. Each round may turn further descendants into children.
fn kill_all_children() {
    loop {
        for pid in process_table::own_children() {
            let _ = kill_process(pid, Signal::KILL);
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        std::thread::sleep(KILL_INTERVAL);
    }
}

fn refuse_other_threads() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
        return Err(io::Error::other("the guard must be the only thread"));
    }
    Ok(())
}

/// Neither Ctrl-C nor a closed terminal may reach the guard, nor a server read from the terminal. The working directory
/// is left, so as not to keep a file system busy.
fn detach_from_terminal() {
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
}

/// Sets the name that `ps` and `killall` know, so that `killall hermes` spares those who clean up.
fn name_process(name: &CStr) {
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

/// Ending is the host's business alone, so what usually ends a program has no effect here.
///
/// An ignored signal would stay ignored in the servers, a handled one is back to its default after `exec`. Therefore
/// everything is set to its default first, whatever the host inherited, and the rest is handled by doing nothing.
#[expect(unsafe_code, reason = "setting a signal has no safe interface")]
fn reset_signals() -> io::Result<()> {
    for signal in (1..=last_signal()).filter(|signal| *signal != libc::SIGPIPE) {
        // SAFETY: SIG_DFL is a valid disposition; numbers that cannot be set are refused without effect.
        let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // The one that the standard library sets to its default in every child.
    // SAFETY: SIG_IGN is a valid disposition; no handler is installed.
    let _ = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn last_signal() -> i32 {
    libc::SIGRTMAX()
}

#[cfg(not(target_os = "linux"))]
fn last_signal() -> i32 {
    31
}

enum ForkSide {
    Guard,
    /// The parent, with the guard's pid.
    Watchdog(Pid),
}

#[expect(
    unsafe_code,
    reason = "a fork without exec makes the guard in microseconds"
)]
fn fork() -> io::Result<ForkSide> {
    // SAFETY: `start` has checked that this is the only thread, so no lock can be held by a thread that the child lacks.
    let forked = unsafe { libc::fork() };
    match Pid::from_raw(forked) {
        _ if forked < 0 => Err(io::Error::last_os_error()),
        None => Ok(ForkSide::Guard),
        Some(guard) => Ok(ForkSide::Watchdog(guard)),
    }
}
