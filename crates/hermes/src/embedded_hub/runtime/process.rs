//! One tenant's process, from its start to the end of its last descendant. A task owns it; others hold [`RunningAgent`].

use std::{
    fmt,
    fs::File,
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::{Redactor, ServerName};
use hermes_hub::tenants::runtime::{AgentExit, AgentLaunch, ExitCause, RuntimeError};
use hermes_mcp::process::{
    GuardHandle, GuardProgram, ServerExit, ServerProcess, ServerStderr, SpawnRequest,
    SpawnedServer, StderrLog,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use super::{api::AgentApi, handover, isolation::IsolationDecision, launcher};

/// Lines of stderr that are shown when an agent ends by itself.
const MAX_STDERR_LINES: usize = 5;

/// Commands to the task that owns a process: one caller stops it, one watches its memory.
const COMMAND_QUEUE: usize = 4;

/// Why a process is to end.
enum ProcessCommand {
    /// It may finish what it does within this time. The answer comes when nothing of it is left.
    Stop {
        timeout: Duration,
        done: oneshot::Sender<()>,
    },
    /// At once, for this reason.
    Kill(AgentExit),
}

/// How a process ended.
#[derive(Debug, Clone)]
pub(super) enum ProcessEnd {
    /// It was stopped on request.
    Stopped,
    /// By itself, or by a limit.
    Died(AgentExit),
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("it was stopped"),
            Self::Died(death) => write!(f, "it {death}"),
        }
    }
}

/// What the processes of a tenant are held to.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResourceBounds {
    /// Their resident bytes together.
    pub(super) memory: u64,
    /// Their niceness.
    pub(super) niceness: i32,
}

/// A running agent.
#[derive(Debug, Clone)]
pub(super) struct RunningAgent {
    pub(super) api: AgentApi,
    pub(super) pid: u32,
    /// Tells it from another process of the same number.
    start_time: u64,
    /// The topmost process of the tree.
    pub(super) root: u32,
    /// What the Hub has to watch over, if the kernel does not.
    pub(super) bounds: Option<ResourceBounds>,
    commands: mpsc::Sender<ProcessCommand>,
    ended: watch::Receiver<Option<ProcessEnd>>,
}

/// What a process is started with.
pub(super) struct ProcessStart<'a> {
    pub(super) launch: &'a AgentLaunch,
    pub(super) decided: &'a IsolationDecision,
    pub(super) launcher: &'a GuardProgram,
    pub(super) environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    pub(super) listener: std::os::unix::net::UnixListener,
    /// Stays locked as long as something of the tree is left.
    pub(super) lock: File,
    pub(super) log: &'a StderrLog,
    /// When it is killed, if that is decided.
    pub(super) deadline: watch::Receiver<Option<Instant>>,
}

/// The parts that the owning task needs.
pub(super) struct ProcessOwner {
    guard: GuardHandle,
    process: ServerProcess,
    /// Both are read to their end: a full pipe would stop the agent.
    output: [ServerStderr; 2],
    redactor: Arc<Redactor>,
    commands: mpsc::Receiver<ProcessCommand>,
    deadline: watch::Receiver<Option<Instant>>,
    ended: watch::Sender<Option<ProcessEnd>>,
}

/// Starts the process; it has not confined itself yet when this returns. The second part is to be run by a task.
pub(super) async fn start_process(
    start: ProcessStart<'_>,
    api: AgentApi,
) -> Result<(RunningAgent, ProcessOwner), RuntimeError> {
    let no_start = |error: &dyn std::fmt::Display| RuntimeError::StartFailed(error.to_string());
    let plan = serde_json::to_string(&start.decided.plan).map_err(|error| no_start(&error))?;
    let name = ServerName::new(start.launch.tenant.as_str());
    let guard = GuardHandle::new(start.launcher.clone()).with_held_file(start.lock);
    let request = SpawnRequest {
        server: name.clone(),
        program: start.launcher.path.clone(),
        args: vec![launcher::ARGUMENT.into(), plan.into()],
        environment: start.environment,
        cwd: Some(super::environment::workspace(&start.launch.home)),
        // The launcher confines itself: it has more to do than a server, and some of it as another user.
        sandbox: None,
    };
    let handed = super::environment::agent_keys(start.launch)
        .into_file()
        .and_then(|keys| handover::send_files(start.listener.as_fd(), &keys))
        .map_err(|error| no_start(&error))?;
    let child = guard
        .spawn_with_stdin(request, handed.as_fd())
        .await
        .map_err(|error| no_start(&error))?;
    let root = guard
        .pid()
        .ok_or_else(|| no_start(&"its guard has ended"))?;
    let SpawnedServer {
        stdout,
        stderr,
        process,
        ..
    } = child;
    let mut deadline = start.deadline;
    pass_on_deadline(&process, &mut deadline);
    let pid = process.pid();
    let secrets = start.launch.env.values().cloned();
    let redactor = Arc::new(Redactor::new(
        secrets.chain([start.launch.runtime_key.clone()]),
    ));
    let output = [stderr, stdout].map(|pipe| {
        let redactor = Arc::clone(&redactor);
        start.log.drain(&name, pid, "agent", redactor, pipe)
    });
    let (order, orders) = mpsc::channel(COMMAND_QUEUE);
    let (end, ended) = watch::channel(None);
    let running = RunningAgent {
        api,
        pid,
        start_time: process.start_time(),
        root,
        bounds: start.decided.is_watched.then_some(ResourceBounds {
            memory: start.launch.limits.memory_bytes,
            niceness: start.decided.plan.niceness,
        }),
        commands: order,
        ended,
    };
    let owned = ProcessOwner {
        guard,
        process,
        output,
        redactor,
        commands: orders,
        deadline,
        ended: end,
    };
    Ok((running, owned))
}

/// Has the guard kill the process when the Hub cannot.
fn pass_on_deadline(process: &ServerProcess, deadline: &mut watch::Receiver<Option<Instant>>) {
    if let Some(deadline) = *deadline.borrow_and_update() {
        process.set_deadline(deadline);
    }
}

/// Waits for the end of a process, and passes on its deadline whenever that changes.
async fn wait_for_exit(
    process: &mut ServerProcess,
    deadline: &mut watch::Receiver<Option<Instant>>,
) -> ServerExit {
    loop {
        tokio::select! {
            biased;
            exit = process.exited() => return exit,
            Ok(()) = deadline.changed() => {}
        }
        pass_on_deadline(process, deadline);
    }
}

impl RunningAgent {
    /// Why it has ended, if it has.
    pub(super) fn end(&self) -> Option<ProcessEnd> {
        self.ended.borrow().clone()
    }

    /// Waits for its end, and returns why.
    pub(super) async fn wait_for_end(&self) -> ProcessEnd {
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some).await;
        end.ok()
            .and_then(|end| end.clone())
            // The Hub let go of it.
            .unwrap_or(ProcessEnd::Stopped)
    }

    /// Whether its process is gone, which may be known before its end has been looked into.
    pub(super) fn is_gone(&self) -> bool {
        self.end().is_some() || !hermes_mcp::process::may_be_running(self.pid, self.start_time)
    }

    /// Stops it and waits until nothing of it is left.
    pub(super) async fn stop(&self, timeout: Duration) {
        let (done, stopped) = oneshot::channel();
        let order = ProcessCommand::Stop { timeout, done };
        if self.commands.send(order).await.is_ok() {
            let _ = stopped.await;
        }
        self.wait_for_end().await;
    }

    /// Ends it at once.
    pub(super) fn kill(&self, death: AgentExit) {
        // A full queue holds commands to end already.
        let _ = self.commands.try_send(ProcessCommand::Kill(death));
    }
}

impl ProcessOwner {
    /// Waits for the end of the process or for an order to end it, and cleans up. `hit_memory_limit` tells whether the
    /// kernel ended it for its memory.
    pub(super) async fn supervise(
        mut self,
        hit_memory_limit: impl Fn() -> bool,
        clean_up: impl FnOnce(),
    ) {
        let mut has_left = true;
        let (end, done) = tokio::select! {
            // An order that comes after the end changes nothing about its cause.
            biased;
            exit = wait_for_exit(&mut self.process, &mut self.deadline) => {
                let cause = cause(exit, &hit_memory_limit);
                let details = self.last_stderr_lines().await;
                (ProcessEnd::Died(AgentExit { cause, details }), None)
            }
            order = self.commands.recv() => match order {
                Some(ProcessCommand::Stop { timeout, done }) => {
                    has_left = self.request_exit(timeout).await;
                    (ProcessEnd::Stopped, Some(done))
                }
                Some(ProcessCommand::Kill(death)) => {
                    self.send_signal(rustix::process::Signal::KILL);
                    (ProcessEnd::Died(death), None)
                }
                // The Hub let go of it.
                None => (ProcessEnd::Stopped, None),
            },
        };
        // One that has had its time gets no more: another node may have its home soon.
        let stopped = if has_left {
            self.process.stop()
        } else {
            self.process.kill()
        };
        if let Err(error) = stopped.await {
            tracing::warn!(%error, "failed to stop the agent's process");
        }
        drop(self.guard);
        clean_up();
        let _ = self.ended.send(Some(end));
        if let Some(done) = done {
            let _ = done.send(());
        }
    }

    /// Returns whether it has left in time.
    async fn request_exit(&mut self, limit: Duration) -> bool {
        self.send_signal(rustix::process::Signal::TERM);
        let left = wait_for_exit(&mut self.process, &mut self.deadline);
        timeout(limit, left).await.is_ok()
    }

    fn send_signal(&self, signal: rustix::process::Signal) {
        let pid = self.process.pid();
        let is_it = hermes_mcp::process::may_be_running(pid, self.process.start_time());
        let pid = i32::try_from(pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid.filter(|_| is_it) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Its last lines of stderr.
    async fn last_stderr_lines(&mut self) -> String {
        let [stderr, _] = &mut self.output;
        stderr.wait_for_end().await;
        let lines = stderr.tail();
        let last = lines.len().saturating_sub(MAX_STDERR_LINES);
        let words = lines[last..].join(" / ");
        self.redactor.redact(&words).into_owned()
    }
}

fn cause(exit: ServerExit, hit_memory_limit: impl Fn() -> bool) -> ExitCause {
    match exit {
        ServerExit::Signal(9) if hit_memory_limit() => ExitCause::MemoryLimit,
        ServerExit::Code(code) => ExitCause::Exit(code),
        ServerExit::Signal(signal) => ExitCause::Signal(signal),
        ServerExit::Unknown => ExitCause::Unknown,
    }
}
