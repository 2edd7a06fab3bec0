//! The host's side of starting servers: the handle to the guard, and what comes back from it.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hermes_config::ServerName;
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::{
        UnixStream,
        unix::pipe::{Receiver, Sender},
    },
};

use super::{
    ServerProcess, SpawnError,
    server_process::Answer,
    wire::{self, Request},
};

/// Room in the pipes of stdin and stdout, four times the default: large messages then cost fewer wake-ups. More is no
/// faster, and a user has 64 MiB for all pipes; once they are used up, every new pipe shrinks to a page or two.
#[cfg(target_os = "linux")]
const PIPE_CAPACITY: usize = 256 * 1024;

/// The program that runs [`super::guard::run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardProgram {
    /// The executable.
    pub path: PathBuf,
    /// The arguments that make it a guard.
    pub args: Vec<OsString>,
}

/// What to start.
#[derive(Debug, Clone)]
pub struct SpawnRequest {
    /// Whose process it is.
    pub server: ServerName,
    /// The executable, as found by [`crate::environment::find_program`].
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment; nothing is added.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory; the host's own if `None`.
    pub cwd: Option<PathBuf>,
}

/// A server that has just been started.
#[derive(Debug)]
pub struct Child {
    /// Its stdin. Dropping it asks the server to leave.
    pub stdin: Sender,
    /// Its stdout.
    pub stdout: Receiver,
    /// Its stderr. Somebody has to read it; see [`super::StderrLog::drain`].
    pub stderr: Receiver,
    /// The process itself.
    pub process: ServerProcess,
}

/// A handle to the one guard of a host. The guard is started with the first server, and again should it die.
#[derive(Debug)]
pub struct Guard {
    program: GuardProgram,
    running: Mutex<Option<Arc<GuardProcess>>>,
}

#[derive(Debug)]
struct GuardProcess {
    socket: UnixStream,
    process: tokio::process::Child,
}

/// Why one attempt to start a server failed.
enum Failure {
    /// The guard or keeper went away: a new guard may do better.
    Lost(Arc<GuardProcess>),
    Final(SpawnError),
}

impl From<SpawnError> for Failure {
    fn from(error: SpawnError) -> Self {
        Self::Final(error)
    }
}

impl Guard {
    /// Remembers how to start the guard; starts nothing yet.
    pub fn new(program: GuardProgram) -> Self {
        Self {
            program,
            running: Mutex::new(None),
        }
    }

    /// The guard's process id, while there is one.
    pub fn pid(&self) -> Option<u32> {
        self.slot().as_ref()?.process.id()
    }

    /// Starts a server. Dropping the future half-way leaves no process behind.
    pub async fn spawn(&self, request: SpawnRequest) -> Result<Child, SpawnError> {
        for _ in 0..2 {
            match self.attempt(&request).await {
                Ok(child) => return Ok(child),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Lost(guard)) => self.forget(&guard),
            }
        }
        Err(SpawnError::GuardLost {
            program: self.program.path.clone(),
        })
    }

    async fn attempt(&self, request: &SpawnRequest) -> Result<Child, Failure> {
        let guard = self.running()?;
        let pipes = Pipes::open().map_err(SpawnError::NoPipes)?;
        let (mut socket, keeper_end) = socket_pair().map_err(SpawnError::NoPipes)?;

        let sent = async {
            guard.hand_over(keeper_end).await?;
            send_request(&mut socket, request, pipes.server).await
        };
        if sent.await.is_err() {
            return Err(Failure::Lost(guard));
        }
        match ServerProcess::await_start(request.server.clone(), socket).await {
            Ok(Answer::Started(process)) => Ok(Child {
                stdin: pipes.stdin,
                stdout: pipes.stdout,
                stderr: pipes.stderr,
                process,
            }),
            Ok(Answer::Failed { errno, message }) => {
                Err(SpawnError::from_failure(request, errno, message).into())
            }
            Err(_) => Err(Failure::Lost(guard)),
        }
    }

    fn running(&self) -> Result<Arc<GuardProcess>, SpawnError> {
        let mut slot = self.slot();
        if let Some(guard) = &*slot {
            return Ok(Arc::clone(guard));
        }
        let guard = GuardProcess::start(&self.program).map_err(|source| SpawnError::NoGuard {
            program: self.program.path.clone(),
            source,
        })?;
        Ok(Arc::clone(slot.insert(Arc::new(guard))))
    }

    /// Lets go of a guard that did not answer, unless somebody else has replaced it already.
    fn forget(&self, lost: &Arc<GuardProcess>) {
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(|guard| Arc::ptr_eq(guard, lost)) {
            *slot = None;
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<GuardProcess>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GuardProcess {
    fn start(program: &GuardProgram) -> io::Result<Self> {
        let (socket, guard_end) = socket_pair()?;
        let process = tokio::process::Command::new(&program.path)
            .args(&program.args)
            .stdin(Stdio::from(OwnedFd::from(guard_end)))
            // Whoever waits for the end of the host's output should not have to wait for the guard.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { socket, process })
    }

    /// Has a keeper forked for the other end of a socket pair.
    async fn hand_over(&self, keeper_end: StdUnixStream) -> io::Result<()> {
        let send = || {
            wire::send_with_files(
                self.socket.as_fd(),
                &wire::NEW_KEEPER,
                &[keeper_end.as_fd()],
            )
        };
        self.socket.async_io(Interest::WRITABLE, send).await?;
        Ok(())
    }
}

/// Tells a keeper what to start, and gives it the server's ends of the pipes.
async fn send_request(
    socket: &mut UnixStream,
    request: &SpawnRequest,
    stdio: [OwnedFd; wire::STDIO_COUNT],
) -> io::Result<()> {
    // The guard has left the host's directory, so it is named even where the server inherits it.
    let cwd = request.cwd.clone().or_else(|| std::env::current_dir().ok());
    let body = serde_json::to_vec(&Request {
        program: request.program.clone().into_os_string(),
        args: request.args.clone(),
        environment: request.environment.clone(),
        cwd: cwd.map(PathBuf::into_os_string),
    })?;
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let files = stdio.each_ref().map(AsFd::as_fd);
    let send = || wire::send_with_files(socket.as_fd(), &length.to_ne_bytes(), &files);
    socket.async_io(Interest::WRITABLE, send).await?;
    socket.write_all(&body).await
}

fn socket_pair() -> io::Result<(UnixStream, StdUnixStream)> {
    let (near, far) = StdUnixStream::pair()?;
    near.set_nonblocking(true)?;
    Ok((UnixStream::from_std(near)?, far))
}

/// The three pipes of a server.
struct Pipes {
    stdin: Sender,
    stdout: Receiver,
    stderr: Receiver,
    /// The ends the server gets: stdin, stdout, stderr.
    server: [OwnedFd; wire::STDIO_COUNT],
}

impl Pipes {
    fn open() -> io::Result<Self> {
        let (server_stdin, stdin) = io::pipe()?;
        let (stdout, server_stdout) = io::pipe()?;
        let (stderr, server_stderr) = io::pipe()?;
        enlarge(&stdin);
        enlarge(&stdout);
        Ok(Self {
            stdin: Sender::from_owned_fd(stdin.into())?,
            stdout: Receiver::from_owned_fd(stdout.into())?,
            stderr: Receiver::from_owned_fd(stderr.into())?,
            server: [
                server_stdin.into(),
                server_stdout.into(),
                server_stderr.into(),
            ],
        })
    }
}

/// A matter of speed only: where the system grants less, the pipe stays as it is.
fn enlarge(pipe: &impl AsFd) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_CAPACITY);
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}
