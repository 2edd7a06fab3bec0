//! The processes of one host: finds the program, gives it its environment, starts it, logs it, records it.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use hermes_config::{
    Home, Redactor, ServerName,
    server::{SandboxSettings, StdioSettings},
};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    sync::OnceCell,
    task::JoinHandle,
};
use tokio_util::task::TaskTracker;

use super::{
    Child, Exit, Guard, GuardProgram, ServerProcess, ServerStderr, SpawnError, SpawnRequest,
    StderrLog,
    records::{self, ProcessRecords},
};
use crate::{
    environment::{self, ProgramError},
    sandbox::{
        Confined, Support,
        subject::{Subject, Unsupported},
    },
};

/// The variable that says where temporary files go.
const TEMPORARY: &str = "TMPDIR";

/// Starts and keeps the processes of one host.
#[derive(Debug)]
pub(crate) struct Processes {
    guard: Guard,
    stderr_log: StderrLog,
    run_dir: PathBuf,
    records: OnceCell<Option<Arc<ProcessRecords>>>,
    /// What the kernel has to confine servers with; it is asked when the first is to be confined.
    support: OnceLock<Support>,
    tasks: TaskTracker,
}

/// Why a local server's process could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("{0}")]
    Program(#[from] ProgramError),
    #[error("{0}")]
    Spawn(#[from] SpawnError),
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    #[error("no directory for the temporary files of its sandbox: {0}")]
    NoDirectory(#[source] io::Error),
}

impl StartError {
    /// Whether only another configuration helps.
    pub(crate) fn is_configured(&self) -> bool {
        matches!(
            self,
            Self::Spawn(SpawnError::BadWorkingDirectory { .. }) | Self::Unsupported(_)
        )
    }
}

/// A local server's process.
#[derive(Debug)]
pub(crate) struct Running {
    process: ServerProcess,
    confined: Option<Arc<Confined>>,
    stderr: ServerStderr,
    _record: Option<Recorded>,
}

/// A process's place in the records, kept for as long as somebody holds on to the process.
#[derive(Debug)]
struct Recorded {
    records: Arc<ProcessRecords>,
    pid: u32,
}

impl Recorded {
    fn new(records: Arc<ProcessRecords>, process: &ServerProcess) -> Self {
        if let Err(error) = records.add(process) {
            tracing::debug!(%error, "recording a process failed");
        }
        let pid = process.pid();
        Self { records, pid }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if let Err(error) = self.records.remove(self.pid) {
            tracing::debug!(%error, "removing a process record failed");
        }
    }
}

/// The two ends a transport needs.
pub(crate) type Pipes = (Receiver, Sender);

impl Processes {
    pub(crate) fn new(
        home: &Home,
        program: GuardProgram,
        support: Option<Support>,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            guard: Guard::new(program),
            stderr_log: StderrLog::new(home.path()),
            run_dir: home.run_dir(),
            records: OnceCell::new(),
            support: support.map_or_else(OnceLock::new, OnceLock::from),
            tasks,
        }
    }

    /// Gets ready to start servers, while their settings are still being looked at.
    pub(crate) fn prepare(&self) {
        self.guard.prepare();
    }

    /// Starts a server whose references are resolved.
    pub(crate) async fn start(
        &self,
        server: &ServerName,
        settings: &StdioSettings,
        sandbox: &SandboxSettings,
        home: &Home,
        redactor: Arc<Redactor>,
    ) -> Result<(Running, Pipes), StartError> {
        let mut environment = environment::child_environment(std::env::vars_os(), &settings.env);
        let program = environment::find_program(&settings.command, &environment, home.path())?;
        environment::lead_path_with(&program, &mut environment);
        let cwd = settings
            .cwd
            .as_deref()
            .map(|path| environment::expand(path, &environment));
        let mut request = SpawnRequest {
            server: server.clone(),
            program,
            args: settings.args.iter().map(OsString::from).collect(),
            environment,
            cwd,
            sandbox: None,
        };
        let confined = if sandbox.enabled {
            Some(Arc::new(self.confine(
                &mut request,
                settings,
                sandbox,
                home,
            )?))
        } else {
            None
        };
        let Child {
            stdin,
            stdout,
            stderr,
            process,
        } = self.guard.spawn(request).await?;
        let (pid, command) = (process.pid(), &settings.command);
        let stderr = self
            .stderr_log
            .drain(server, pid, command, redactor, stderr);
        let running = Running {
            confined,
            stderr,
            _record: self
                .records()
                .await
                .map(|records| Recorded::new(records, &process)),
            process,
        };
        Ok((running, (stdout, stdin)))
    }

    /// Stops a process in a task of its own, which the host waits for when it ends.
    pub(crate) fn stop_apart(&self, running: Running) -> JoinHandle<()> {
        self.tasks.spawn(running.stop())
    }

    /// Confines a server that is about to be started, and gives it a directory of its own.
    fn confine(
        &self,
        request: &mut SpawnRequest,
        settings: &StdioSettings,
        sandbox: &SandboxSettings,
        home: &Home,
    ) -> Result<Confined, StartError> {
        let support = *self.support.get_or_init(Support::of_this_machine);
        let cwd = request.cwd.clone().or_else(|| std::env::current_dir().ok());
        let cwd = cwd.unwrap_or_default();
        let subject = Subject {
            server: &request.server,
            settings: sandbox,
            program: &request.program,
            environment: &request.environment,
            cwd: &cwd,
            home,
        };
        let confined = subject.confine(support)?;
        subject
            .make_directories()
            .map_err(StartError::NoDirectory)?;
        let own = subject.own_directory();
        for warning in &confined.warnings {
            tracing::warn!(server = %request.server, "{warning}");
        }
        // Where it was started by chance is nowhere it could look.
        if request.cwd.is_none() && !Subject::can_read(&confined.plan, &cwd) {
            request.cwd = Some(own.clone());
        }
        if !settings.env.iter().any(|(name, _)| name == TEMPORARY) {
            environment::set(&mut request.environment, OsStr::new(TEMPORARY), own.into());
        }
        request.sandbox = (support != Support::NONE).then(|| confined.plan.clone());
        Ok(confined)
    }

    /// The record of this host's processes. The first start clears what a crashed host left behind.
    async fn records(&self) -> Option<Arc<ProcessRecords>> {
        let open = async || {
            let directory = self.run_dir.clone();
            self.tasks.spawn(async move {
                for leftover in records::clear_stale(&directory).await {
                    tracing::warn!(server = %leftover.server, pid = leftover.pid, "killed a process left behind by a crashed host");
                }
            });
            ProcessRecords::create(&self.run_dir)
                .inspect_err(|error| tracing::warn!(%error, "creating the process records failed; `hermes mcp ps` does not list these processes"))
                .ok()
                .map(Arc::new)
        };
        self.records.get_or_init(open).await.clone()
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// How it is confined, if it is.
    pub(crate) fn confined(&self) -> Option<&Arc<Confined>> {
        self.confined.as_ref()
    }

    /// Waits for the server's own process to end. May be dropped and called again.
    pub(crate) async fn exited(&mut self) -> Exit {
        self.process.exited().await
    }

    /// The last lines of its stderr, once it has ended.
    pub(crate) async fn last_lines(&mut self) -> Vec<String> {
        self.stderr.settle().await;
        self.stderr.tail()
    }

    /// The last lines of its stderr so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.stderr.tail()
    }

    /// Leaves the lines so far out of what is told later. The log has them.
    pub(crate) fn forget_lines(&self) {
        self.stderr.forget();
    }

    /// Ends the server and all it has started. Its stdin must be closed already.
    pub(crate) async fn stop(self) {
        if let Err(error) = self.process.stop().await {
            tracing::warn!(%error, "stopping a server process failed");
        }
    }
}
