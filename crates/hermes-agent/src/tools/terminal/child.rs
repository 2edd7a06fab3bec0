//! Runs a shell command in its own process group. Processes it leaves running are killed with it, also
//! those outside the group: a daemon with its own session is recognised by an inherited variable, unless it clears its
//! environment.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt, process::ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use hermes_mcp::process::{
    command_marker::CommandMarker, descendants::mark_descendants, sandbox, sandbox::SandboxPlan,
    sandbox::limit_child_processes,
};
use rustix::{
    fs::OFlags,
    process::{Pid, Signal},
    pty::OpenptFlags,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
};

/// How long a command may take to end after SIGTERM.
const TERMINATE_GRACE: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandIo {
    Pipes,
    Terminal,
}

pub(in crate::tools) struct CommandStart<'a> {
    pub(in crate::tools) command: &'a str,
    pub(in crate::tools) directory: &'a Path,
    pub(in crate::tools) environment: &'a [(OsString, OsString)],
    pub(in crate::tools) io: CommandIo,
    /// What it is confined to, if it is.
    pub(in crate::tools) sandbox: Option<&'a SandboxPlan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) enum InputMode {
    Closed,
    Open,
}

/// A started command with its input and output.
pub(in crate::tools) struct StartedCommand {
    pub(in crate::tools) child: CommandChild,
    /// What it writes, errors included.
    pub(in crate::tools) output: OutputReader,
    pub(in crate::tools) input: Option<InputWriter>,
}

impl StartedCommand {
    pub(in crate::tools) fn new(start: &CommandStart<'_>, input: InputMode) -> io::Result<Self> {
        match start.io {
            CommandIo::Pipes => Self::with_pipes(start, input),
            CommandIo::Terminal => Self::with_terminal(start),
        }
    }

    fn with_pipes(start: &CommandStart<'_>, input: InputMode) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let (stdin, input) = match input {
            InputMode::Closed => (Stdio::null(), None),
            InputMode::Open => {
                let (reader, writer) = io::pipe()?;
                (
                    reader.into(),
                    Some(InputWriter::new(writer.into(), CommandIo::Pipes)?),
                )
            }
        };
        let mark = CommandMarker::new();
        let mut command = shell_command(start, &mark);
        command
            .stdin(stdin)
            .stdout(writer.try_clone()?)
            .stderr(writer);
        detach_from_terminal(&mut command);
        enter_sandbox(&mut command, start)?;
        let output = OutputReader::new(reader.into())?;
        // Dropping the command closes its writing ends, which would keep the output open.
        Ok(Self {
            child: CommandChild::new(command.spawn()?, mark)?,
            output,
            input,
        })
    }

    fn with_terminal(start: &CommandStart<'_>) -> io::Result<Self> {
        let (master, slave) = open_terminal()?;
        let mark = CommandMarker::new();
        let mut command = shell_command(start, &mark);
        command
            .stdin(slave.try_clone()?)
            .stdout(slave.try_clone()?)
            .stderr(slave);
        become_session_leader(&mut command);
        enter_sandbox(&mut command, start)?;
        let input = Some(InputWriter::new(master.try_clone()?, CommandIo::Terminal)?);
        let output = OutputReader::new(master)?;
        Ok(Self {
            child: CommandChild::new(command.spawn()?, mark)?,
            output,
            input,
        })
    }
}

/// A running command. Dropping it kills its whole group.
pub(in crate::tools) struct CommandChild {
    child: tokio::process::Child,
    group: CommandProcessGroup,
}

impl CommandChild {
    fn new(child: tokio::process::Child, mark: CommandMarker) -> io::Result<Self> {
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.ok_or_else(|| io::Error::other("the process has no id"))?;
        Ok(Self {
            child,
            group: CommandProcessGroup { leader: pid, mark },
        })
    }

    pub(in crate::tools) fn id(&self) -> i32 {
        self.group.leader.as_raw_nonzero().get()
    }

    /// Waits for the shell and returns its exit code, 128 plus the signal if one ended it.
    pub(in crate::tools) async fn wait(&mut self) -> Option<i32> {
        self.child.wait().await.ok().and_then(exit_code)
    }

    /// Terminates the whole group: SIGTERM, then SIGKILL.
    pub(in crate::tools) async fn terminate(&mut self) -> Option<i32> {
        self.group.signal(Signal::TERM);
        let exited = tokio::time::timeout(TERMINATE_GRACE, self.child.wait()).await;
        self.group.signal(Signal::KILL);
        // Before the group exists, there is only the child.
        let _ = self.child.start_kill();
        match exited {
            Ok(status) => status.ok().and_then(exit_code),
            Err(_) => self.wait().await,
        }
    }

    /// Kills what is left of the group.
    pub(in crate::tools) fn kill_group(&self) {
        self.group.signal(Signal::KILL);
    }
}

fn exit_code(status: ExitStatus) -> Option<i32> {
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
}

/// A process group that is killed when dropped, with the processes that left it.
struct CommandProcessGroup {
    leader: Pid,
    mark: CommandMarker,
}

impl CommandProcessGroup {
    fn signal(&self, signal: Signal) {
        // The group may have ended already.
        let _ = rustix::process::kill_process_group(self.leader, signal);
    }
}

impl Drop for CommandProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.mark.kill_marked();
    }
}

fn shell_command(start: &CommandStart<'_>, mark: &CommandMarker) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(shell_program(start.environment));
    command
        .arg("-c")
        .arg(start.command)
        .current_dir(start.directory)
        .env_clear()
        .envs(start.environment.iter().map(|(name, value)| (name, value)))
        .envs([mark.variable()])
        .kill_on_drop(true);
    limit_child_processes(&mut command);
    mark_descendants(&mut command);
    command
}

/// Enters the sandbox as the last step before exec.
fn enter_sandbox(
    command: &mut tokio::process::Command,
    start: &CommandStart<'_>,
) -> io::Result<()> {
    match start.sandbox {
        Some(plan) => sandbox::confine_command(command, plan).map_err(io::Error::other),
        None => Ok(()),
    }
}

/// Makes the child a session leader without a terminal: it can neither read what the user types nor type in
/// their place.
#[expect(unsafe_code, reason = "pre_exec has no safe form")]
fn detach_from_terminal(command: &mut tokio::process::Command) {
    let prepare = || {
        rustix::process::setsid()?;
        Ok(())
    };
    // SAFETY: a plain system call; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(prepare) };
}

/// `bash` if it is in the command's PATH, else `sh`.
fn shell_program(environment: &[(OsString, OsString)]) -> PathBuf {
    let path = environment
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.as_os_str());
    let directories = std::env::split_paths(path.unwrap_or_default());
    directories
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("bash"))
        .find(|bash| bash.is_file())
        .unwrap_or_else(|| "/bin/sh".into())
}

fn open_terminal() -> io::Result<(OwnedFd, File)> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let path = OsStr::from_bytes(name.as_bytes());
    let slave = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NOCTTY.bits().cast_signed())
        .open(path)?;
    let size = rustix::termios::Winsize {
        ws_row: 40,
        ws_col: 120,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&master, size)?;
    Ok((master, slave))
}

/// Makes the child a session leader with its input as controlling terminal.
#[expect(unsafe_code, reason = "pre_exec has no safe form")]
fn become_session_leader(command: &mut tokio::process::Command) {
    let prepare = || {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        Ok(())
    };
    // SAFETY: both are plain system calls; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(prepare) };
}

pub(in crate::tools) struct OutputReader(pipe::Receiver);

impl OutputReader {
    fn new(end: OwnedFd) -> io::Result<Self> {
        pipe::Receiver::from_owned_fd_unchecked(set_nonblocking(end)?).map(Self)
    }

    /// Reads available output; 0 at the end.
    pub(in crate::tools) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let has_left = |result: &io::Result<usize>| {
            let error = result.as_ref().err().and_then(io::Error::raw_os_error);
            error == Some(rustix::io::Errno::IO.raw_os_error())
        };
        let mut result = self.0.read(buffer).await;
        // The terminal was hung up. Linux may report it before the last output arrives: read once more.
        if has_left(&result) {
            result = self.0.read(buffer).await;
        }
        if has_left(&result) {
            return Ok(0);
        }
        result
    }
}

pub(in crate::tools) struct InputWriter {
    end: pipe::Sender,
    io: CommandIo,
}

impl InputWriter {
    fn new(end: OwnedFd, connection: CommandIo) -> io::Result<Self> {
        let end = pipe::Sender::from_owned_fd_unchecked(set_nonblocking(end)?)?;
        Ok(Self {
            end,
            io: connection,
        })
    }

    pub(in crate::tools) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.end.write_all(bytes).await
    }

    /// Closes the input. A pipe is closed when dropped; a terminal needs a control character.
    pub(in crate::tools) async fn finish(mut self) -> io::Result<()> {
        const END_OF_TRANSMISSION: u8 = 4;
        match self.io {
            CommandIo::Pipes => Ok(()),
            CommandIo::Terminal => self.write_all(&[END_OF_TRANSMISSION]).await,
        }
    }
}

fn set_nonblocking(end: OwnedFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(&end)?;
    rustix::fs::fcntl_setfl(&end, flags | OFlags::NONBLOCK)?;
    Ok(end)
}

/// The process group of a program that is killed when nobody waits for it any more.
pub(crate) struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// The group that a child leads.
    pub(crate) fn of_child(child: &tokio::process::Child) -> Self {
        let leader = child.id();
        Self(leader.and_then(|id| Pid::from_raw(id.cast_signed())))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // It may have ended already.
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        }
    }
}
