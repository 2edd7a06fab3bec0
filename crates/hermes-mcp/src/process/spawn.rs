//! The host's side of starting servers: the handle to the guard, and what comes back from it.

use std::{
    ffi::OsString,
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    path::PathBuf,
    process::Stdio,
    sync::Arc,
};

use futures::future::BoxFuture;
use hermes_config::{
    ServerName,
    sync::{Mutex, MutexGuard},
};
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::{
        UnixStream,
        unix::pipe::{Receiver, Sender},
    },
};

use super::{ServerProcess, SpawnError, server_process::StartReply, wire, wire::SpawnMessage};
use crate::process::{
    command_marker::{CommandOwner, MARKER_VARIABLE, OWNER_VARIABLE},
    sandbox,
};

/// Room in the pipes of stdin and stdout, four times the default: large messages then cost fewer wake-ups. More is not
/// faster, and a user has 64 MiB for all pipes; once they are used up, every new pipe shrinks to a page or two.
#[cfg(target_os = "linux")]
const PIPE_CAPACITY: usize = 256 * 1024;

/// The program that runs [`super::guard::run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardProgram {
    pub path: PathBuf,
    /// The arguments that make it a guard.
    pub args: Vec<OsString>,
}

#[derive(Debug, Clone)]
pub struct SpawnRequest {
    pub server: ServerName,
    /// The executable, as found by [`crate::process::environment::find_program`].
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Its whole environment; nothing is added.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory; the host's own if `None`.
    pub cwd: Option<PathBuf>,
    pub sandbox: Option<sandbox::SandboxPlan>,
}

/// A server that has just been started.
#[derive(Debug)]
pub struct SpawnedServer {
    /// Its stdin. Dropping it asks the server to leave. Nobody reads it where the server was given a file instead.
    pub stdin: Sender,
    pub stdout: Receiver,
    /// Its stderr. Somebody has to read it; see [`super::StderrLog::drain`].
    pub stderr: Receiver,
    pub process: ServerProcess,
}

/// A handle to the one guard of a host. The guard is started with the first server, and again should it die.
#[derive(Debug)]
pub struct GuardHandle {
    program: GuardProgram,
    held_file: Option<File>,
    running: Mutex<Option<Arc<GuardProcess>>>,
}

#[derive(Debug)]
struct GuardProcess {
    socket: UnixStream,
    process: tokio::process::Child,
}

/// Why one attempt to start a server failed.
enum SpawnAttemptError {
    /// The guard went away: a new one may do better.
    GuardLost(Arc<GuardProcess>),
    Final(SpawnError),
}

impl From<SpawnError> for SpawnAttemptError {
    fn from(error: SpawnError) -> Self {
        Self::Final(error)
    }
}

impl GuardHandle {
    /// Remembers how to start the guard; starts nothing yet.
    pub fn new(program: GuardProgram) -> Self {
        Self {
            program,
            held_file: None,
            running: Mutex::new(None),
        }
    }

    /// Lets the guard keep a file open until nothing that it guards is left, even if the host is killed: a lock on that
    /// file then tells the next host when it may begin.
    #[must_use]
    pub fn with_held_file(mut self, file: File) -> Self {
        self.held_file = Some(file);
        self
    }

    /// The guard's process id, while there is one.
    pub fn pid(&self) -> Option<u32> {
        self.lock().as_ref()?.process.id()
    }

    /// Starts the guard if it does not run, so that the first server need not wait for it.
    pub fn start(&self) {
        // What goes wrong is said when a server is to be started.
        let _ = self.ensure_running();
    }

    /// Starts a server. Dropping the future half-way leaves no process behind.
    pub fn spawn(&self, request: SpawnRequest) -> BoxFuture<'_, Result<SpawnedServer, SpawnError>> {
        Box::pin(async move { self.spawn_with_retry(request, None).await })
    }

    /// Starts a program that gets this file as its stdin, such as a socket to listen on.
    pub fn spawn_with_stdin<'a>(
        &'a self,
        request: SpawnRequest,
        stdin: BorrowedFd<'a>,
    ) -> BoxFuture<'a, Result<SpawnedServer, SpawnError>> {
        Box::pin(async move { self.spawn_with_retry(request, Some(stdin)).await })
    }

    async fn spawn_with_retry(
        &self,
        request: SpawnRequest,
        stdin: Option<BorrowedFd<'_>>,
    ) -> Result<SpawnedServer, SpawnError> {
        for _ in 0..2 {
            match self.try_spawn(&request, stdin).await {
                Ok(child) => return Ok(child),
                Err(SpawnAttemptError::Final(error)) => return Err(error),
                Err(SpawnAttemptError::GuardLost(guard)) => self.discard(&guard),
            }
        }
        Err(SpawnError::GuardLost {
            program: self.program.path.clone(),
        })
    }

    async fn try_spawn(
        &self,
        request: &SpawnRequest,
        stdin: Option<BorrowedFd<'_>>,
    ) -> Result<SpawnedServer, SpawnAttemptError> {
        let guard = self.ensure_running()?;
        let (pipes, mut server_ends) = StdioPipes::open().map_err(SpawnError::NoPipes)?;
        if let Some(stdin) = stdin {
            server_ends[0] = stdin.try_clone_to_owned().map_err(SpawnError::NoPipes)?;
        }
        let order = SpawnOrder::new(request, &server_ends)?;
        // Only the server may have them, or the end of its output would never be seen.
        drop(server_ends);
        let Ok(socket) = order.send(&guard).await else {
            return Err(SpawnAttemptError::GuardLost(guard));
        };
        match ServerProcess::await_start(request.server.clone(), socket).await {
            Ok(StartReply::Started(process)) => Ok(SpawnedServer {
                stdin: pipes.stdin,
                stdout: pipes.stdout,
                stderr: pipes.stderr,
                process,
            }),
            Ok(StartReply::Failed { errno, message }) => {
                Err(SpawnError::from_failure(request, errno, message).into())
            }
            Err(_) => Err(SpawnAttemptError::GuardLost(guard)),
        }
    }

    fn ensure_running(&self) -> Result<Arc<GuardProcess>, SpawnError> {
        let mut slot = self.lock();
        if let Some(guard) = &*slot {
            return Ok(Arc::clone(guard));
        }
        let guard =
            GuardProcess::start(&self.program, self.held_file.as_ref()).map_err(|source| {
                SpawnError::NoGuard {
                    program: self.program.path.clone(),
                    source,
                }
            })?;
        Ok(Arc::clone(slot.insert(Arc::new(guard))))
    }

    /// Lets go of a guard that did not answer, unless somebody else has replaced it already.
    fn discard(&self, lost: &Arc<GuardProcess>) {
        let mut slot = self.lock();
        if slot.as_ref().is_some_and(|guard| Arc::ptr_eq(guard, lost)) {
            *slot = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<GuardProcess>>> {
        self.running.lock()
    }
}

impl GuardProcess {
    fn start(program: &GuardProgram, held: Option<&File>) -> io::Result<Self> {
        let (socket, guard_end) = socket_pair()?;
        // Whoever waits for the end of the host's output should not have to wait for the guard, so it has none. It
        // closes all files but these three, and servers get others: what is to be held has to be one of them.
        let stdout = match held {
            Some(file) => Stdio::from(file.try_clone()?),
            None => Stdio::null(),
        };
        let mut command = tokio::process::Command::new(&program.path);
        sandbox::limit_child_processes(&mut command);
        let process = command
            // Whoever kills all that is called like the host should not hit those who clean up after it.
            .arg0("mcp-guard")
            // A command may be a host itself; what kills it must spare the guard.
            .env_remove(MARKER_VARIABLE)
            .env(
                OWNER_VARIABLE,
                CommandOwner::this_process().variable_value(),
            )
            .args(&program.args)
            .stdin(Stdio::from(OwnedFd::from(guard_end)))
            .stdout(stdout)
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { socket, process })
    }

    /// Gives the guard its end of a server's socket.
    async fn send_socket(&self, socket: &StdUnixStream) -> io::Result<()> {
        let send = || {
            wire::send_with_files(
                self.socket.as_fd(),
                &wire::NEW_SERVER_BYTE,
                &[socket.as_fd()],
            )
        };
        // The runtime would first have to find out that there is room.
        match send() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.socket.async_io(Interest::WRITABLE, send).await?;
                Ok(())
            }
            done => done.map(drop),
        }
    }
}

/// A request on its way to the guard.
struct SpawnOrder {
    socket: UnixStream,
    guard_end: StdUnixStream,
    /// What did not fit into the socket at once.
    rest: Vec<u8>,
}

impl SpawnOrder {
    /// Puts the request and the server's ends of the pipes into a socket of their own.
    fn new(
        request: &SpawnRequest,
        stdio: &[OwnedFd; wire::STDIO_COUNT],
    ) -> Result<Self, SpawnError> {
        // The guard has left the host's directory, so it is named even where the server inherits it.
        let cwd = request.cwd.clone().or_else(|| std::env::current_dir().ok());
        let encoded = SpawnMessage {
            program: request.program.clone().into_os_string(),
            args: request.args.clone(),
            environment: request.environment.clone(),
            cwd: cwd.map(PathBuf::into_os_string),
            sandbox: request.sandbox.clone(),
        }
        .encode();
        let mut rest =
            encoded.map_err(|error| SpawnError::from_failure(request, None, error.to_string()))?;
        let fill = || {
            let (socket, guard_end) = socket_pair()?;
            let files = stdio.each_ref().map(AsFd::as_fd);
            let sent = wire::send_with_files(socket.as_fd(), &rest, &files)?;
            io::Result::Ok((socket, guard_end, sent))
        };
        let (socket, guard_end, sent) = fill().map_err(SpawnError::NoPipes)?;
        rest.drain(..sent);
        Ok(Self {
            socket,
            guard_end,
            rest,
        })
    }

    /// Hands it over; the answer comes on the socket that is returned.
    async fn send(mut self, guard: &GuardProcess) -> io::Result<UnixStream> {
        guard.send_socket(&self.guard_end).await?;
        drop(self.guard_end);
        self.socket.write_all(&self.rest).await?;
        Ok(self.socket)
    }
}

fn socket_pair() -> io::Result<(UnixStream, StdUnixStream)> {
    let (near, far) = StdUnixStream::pair()?;
    near.set_nonblocking(true)?;
    Ok((UnixStream::from_std(near)?, far))
}

/// The host's ends of the three pipes of a server.
struct StdioPipes {
    stdin: Sender,
    stdout: Receiver,
    stderr: Receiver,
}

impl StdioPipes {
    /// Opens them. The second part goes to the server: stdin, stdout, stderr.
    fn open() -> io::Result<(Self, [OwnedFd; wire::STDIO_COUNT])> {
        let (server_stdin, stdin) = io::pipe()?;
        let (stdout, server_stdout) = io::pipe()?;
        let (stderr, server_stderr) = io::pipe()?;
        enlarge_pipe(&stdin);
        enlarge_pipe(&stdout);
        let pipes = Self {
            stdin: Sender::from_owned_fd(stdin.into())?,
            stdout: Receiver::from_owned_fd(stdout.into())?,
            stderr: Receiver::from_owned_fd(stderr.into())?,
        };
        let server_ends = [
            server_stdin.into(),
            server_stdout.into(),
            server_stderr.into(),
        ];
        Ok((pipes, server_ends))
    }
}

/// A matter of speed only: where the system grants less, the pipe stays as it is.
fn enlarge_pipe(pipe: &impl AsFd) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_CAPACITY);
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}
