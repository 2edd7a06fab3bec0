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
    GuardHandle, ServerExit, ServerProcess, ServerStderr, SpawnError, SpawnRequest, SpawnedServer,
    StderrLog,
    records::{self, ProcessRecords},
};
use crate::process::{
    environment,
    environment::ProgramError,
    sandbox::{
        AppliedSandbox, SandboxSupport,
        target::{SandboxTarget, UnsupportedSandbox},
    },
};

/// The variable that says where temporary files go.
const TMPDIR: &str = "TMPDIR";

/// Starts and keeps the processes of one host.
#[derive(Debug)]
pub(crate) struct Processes {
    guard: Arc<GuardHandle>,
    stderr_log: StderrLog,
    run_dir: PathBuf,
    records: OnceCell<Option<Arc<ProcessRecords>>>,
    /// What the kernel has to confine servers with; it is asked when the first is to be confined.
    support: OnceLock<SandboxSupport>,
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
    Unsupported(#[from] UnsupportedSandbox),
    #[error("no directory for the temporary files of its sandbox: {0}")]
    NoDirectory(#[source] io::Error),
}

impl StartError {
    /// Whether only another configuration helps.
    pub(crate) fn is_configuration_error(&self) -> bool {
        matches!(
            self,
            Self::Spawn(SpawnError::BadWorkingDirectory { .. }) | Self::Unsupported(_)
        )
    }
}

/// A local server's process.
#[derive(Debug)]
pub(crate) struct RunningProcess {
    process: ServerProcess,
    confined: Option<Arc<AppliedSandbox>>,
    stderr: ServerStderr,
    _record: Option<RecordGuard>,
}

/// A process's place in the records, kept for as long as somebody holds on to the process.
#[derive(Debug)]
struct RecordGuard {
    records: Arc<ProcessRecords>,
    pid: u32,
}

impl RecordGuard {
    fn new(records: Arc<ProcessRecords>, process: &ServerProcess) -> Self {
        if let Err(error) = records.add(process) {
            tracing::debug!(%error, "failed to record a process");
        }
        let pid = process.pid();
        Self { records, pid }
    }
}

impl Drop for RecordGuard {
    fn drop(&mut self) {
        if let Err(error) = self.records.remove(self.pid) {
            tracing::debug!(%error, "failed to remove a process record");
        }
    }
}

/// The two ends a transport needs.
pub(crate) type TransportPipes = (Receiver, Sender);

impl Processes {
    pub(crate) fn new(
        home: &Home,
        guard: Arc<GuardHandle>,
        support: Option<SandboxSupport>,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            guard,
            stderr_log: StderrLog::new(home.path()),
            run_dir: home.run_dir(),
            records: OnceCell::new(),
            support: support.map_or_else(OnceLock::new, OnceLock::from),
            tasks,
        }
    }

    pub(crate) fn guard(&self) -> &Arc<GuardHandle> {
        &self.guard
    }

    /// Gets ready to start servers, while their settings are still being looked at.
    pub(crate) fn start_guard(&self) {
        self.guard.start();
    }

    /// Starts a server whose references are resolved.
    pub(crate) async fn start(
        &self,
        server: &ServerName,
        settings: &StdioSettings,
        sandbox: &SandboxSettings,
        home: &Home,
        redactor: Arc<Redactor>,
    ) -> Result<(RunningProcess, TransportPipes), StartError> {
        let mut environment = environment::build_environment(std::env::vars_os(), &settings.env);
        let program = environment::find_program(&settings.command, &environment, home.path())?;
        environment::prepend_to_path(&program, &mut environment);
        let cwd = settings
            .cwd
            .as_deref()
            .map(|path| environment::expand_home(path, &environment));
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
        let SpawnedServer {
            stdin,
            stdout,
            stderr,
            process,
        } = self.guard.spawn(request).await?;
        let (pid, command) = (process.pid(), &settings.command);
        let stderr = self
            .stderr_log
            .drain_pipe(server, pid, command, redactor, stderr);
        let running = RunningProcess {
            confined,
            stderr,
            _record: self
                .records()
                .await
                .map(|records| RecordGuard::new(records, &process)),
            process,
        };
        Ok((running, (stdout, stdin)))
    }

    /// Stops a process in a task of its own, which the host waits for when it ends.
    pub(crate) fn stop_in_background(&self, running: RunningProcess) -> JoinHandle<()> {
        self.tasks.spawn(running.stop())
    }

    /// Confines a server that is about to be started, and gives it a directory of its own.
    fn confine(
        &self,
        request: &mut SpawnRequest,
        settings: &StdioSettings,
        sandbox: &SandboxSettings,
        home: &Home,
    ) -> Result<AppliedSandbox, StartError> {
        let support = *self.support.get_or_init(SandboxSupport::detect);
        let cwd = request.cwd.clone().or_else(|| std::env::current_dir().ok());
        let cwd = cwd.unwrap_or_default();
        let subject = SandboxTarget {
            server: &request.server,
            settings: sandbox,
            program: &request.program,
            environment: &request.environment,
            cwd: &cwd,
            home,
        };
        let confined = subject.plan_sandbox(support)?;
        subject
            .make_directories()
            .map_err(StartError::NoDirectory)?;
        let own = subject.own_directory();
        for warning in &confined.warnings {
            tracing::warn!(server = %request.server, "{warning}");
        }
        // Where it was started by chance is nowhere it could look.
        if request.cwd.is_none() && !SandboxTarget::can_read(&confined.plan, &cwd) {
            request.cwd = Some(own.clone());
        }
        if !settings.env.iter().any(|(name, _)| name == TMPDIR) {
            environment::set_variable(&mut request.environment, OsStr::new(TMPDIR), own.into());
        }
        request.sandbox = (support != SandboxSupport::NONE).then(|| confined.plan.clone());
        Ok(confined)
    }

    /// The record of this host's processes. The first start clears what a crashed host left behind.
    async fn records(&self) -> Option<Arc<ProcessRecords>> {
        let open = async || {
            let directory = self.run_dir.clone();
            self.tasks.spawn(async move {
                for leftover in records::stop_stale_processes(&directory).await {
                    tracing::warn!(server = %leftover.server, pid = leftover.pid, "killed a process left behind by a crashed host");
                }
            });
            ProcessRecords::create(&self.run_dir)
                .inspect_err(|error| tracing::warn!(%error, "failed to create the process records; `hermes mcp ps` does not list these processes"))
                .ok()
                .map(Arc::new)
        };
        self.records.get_or_init(open).await.clone()
    }
}

impl RunningProcess {
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn confined(&self) -> Option<&Arc<AppliedSandbox>> {
        self.confined.as_ref()
    }

    /// Waits for the server's own process to end. May be dropped and called again.
    pub(crate) async fn exited(&mut self) -> ServerExit {
        self.process.exited().await
    }

    /// The last lines of its stderr, once it has ended.
    pub(crate) async fn final_stderr(&mut self) -> Vec<String> {
        self.stderr.wait_for_end().await;
        self.stderr.tail()
    }

    /// The last lines of its stderr so far.
    pub(crate) fn stderr_lines(&self) -> Vec<String> {
        self.stderr.tail()
    }

    /// Leaves the lines so far out of what is told later. The log has them.
    pub(crate) fn clear_stderr(&self) {
        self.stderr.clear();
    }

    /// Ends the server and all it has started. Its stdin must be closed already.
    pub(crate) async fn stop(self) {
        if let Err(error) = self.process.stop().await {
            tracing::warn!(%error, "failed to stop a server process");
        }
    }
}
