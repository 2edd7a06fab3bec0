//! An order to start one server: how it is received, and how the server is started.

use std::{
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, Stdio},
};

use rustix::process::Pid;

use super::{
    super::wire::{self, SpawnMessage},
    mark::TreeMark,
};
use crate::process::sandbox::SandboxPlan;

/// Receives what to start and starts it.
pub(super) fn launch_server(host: &mut UnixStream, mark: TreeMark) -> io::Result<Pid> {
    let (request, files) = receive_message(host)?;
    mark.apply_to(|| start_server(request, files))
}

fn receive_message(
    host: &mut UnixStream,
) -> io::Result<(SpawnMessage, [OwnedFd; wire::STDIO_COUNT])> {
    let mut buffer = vec![0; 16 * 1024];
    let (count, files) = wire::receive_with_files(host.as_fd(), &mut buffer)?;
    let stdio = <[OwnedFd; wire::STDIO_COUNT]>::try_from(files)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    buffer.truncate(count);
    while !SpawnMessage::is_complete(&buffer) {
        let known = buffer.len();
        buffer.resize(known + 64 * 1024, 0);
        let count = host.read(&mut buffer[known..])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.truncate(known + count);
    }
    Ok((SpawnMessage::decode(&buffer)?, stdio))
}

/// Starts the server. For one that is not confined there must be nothing here that keeps the standard library from using
/// `posix_spawn`, which is several times faster than a fork: no `pre_exec`, no user, and a program with a path.
fn start_server(request: SpawnMessage, files: [OwnedFd; wire::STDIO_COUNT]) -> io::Result<Pid> {
    let [stdin, stdout, stderr] = files.map(Stdio::from);
    let mut command = Command::new(request.program);
    command
        .args(request.args)
        .env_clear()
        .envs(request.environment)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0);
    if let Some(cwd) = request.cwd {
        command.current_dir(cwd);
    }
    if let Some(plan) = &request.sandbox {
        confine(&mut command, plan)?;
    }
    // Leaving this function drops `command`, and with it the guard's copies of stdin, stdout and stderr.
    Ok(Pid::from_child(&command.spawn()?))
}

/// Lets the server enter its sandbox before it becomes its program.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "a process can only confine itself, between `fork` and `exec`"
)]
fn confine(command: &mut Command, plan: &SandboxPlan) -> io::Result<()> {
    use crate::process::sandbox::PreparedSandbox;

    let mut prepared = Some(PreparedSandbox::new(plan).map_err(io::Error::other)?);
    let enter = move || match prepared.take() {
        Some(prepared) => prepared.enter().map_err(io::Error::other),
        None => Ok(()),
    };
    // SAFETY: the guard is the only thread, so that after the fork there is no lock that somebody else would hold.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

/// Nobody plans a sandbox where there is no support for it.
#[cfg(not(target_os = "linux"))]
fn confine(_: &mut Command, _: &SandboxPlan) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
