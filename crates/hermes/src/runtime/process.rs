//! One tenant's process, from its start to the end of its last descendant. A task owns it; others hold [`Running`].

use std::{fmt, fs::File, os::fd::AsFd, sync::Arc, time::Duration};

use hermes_config::{Redactor, ServerName};
use hermes_hub::runtime::{Death, DeathCause, Launch, RuntimeError};
use hermes_mcp::process::{
    Child, Exit, Guard, GuardProgram, ServerProcess, ServerStderr, SpawnRequest, StderrLog,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use super::{api::AgentApi, handover, isolation::Decided, launcher};

/// Lines of stderr that are shown when an agent ends by itself.
const LAST_LINES: usize = 5;

/// Commands to the task that owns a process: one caller stops it, one watches its memory.
const ORDERS: usize = 4;

/// Why a process is to end.
enum Order {
    /// It may finish what it does within this time. The answer comes when nothing of it is left.
    Stop {
        patience: Duration,
        done: oneshot::Sender<()>,
    },
    /// At once, for this reason.
    Kill(Death),
}

/// How a process ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// It was stopped on request.
    Ordered,
    /// By itself, or by a limit.
    Died(Death),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordered => f.write_str("it was stopped"),
            Self::Died(death) => write!(f, "it {death}"),
        }
    }
}

/// What the processes of a tenant are held to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Their resident bytes together.
    pub(super) memory: u64,
    /// Their niceness.
    pub(super) niceness: i32,
}

/// A running agent.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) api: AgentApi,
    pub(super) pid: u32,
    /// Tells it from another process of the same number.
    start_time: u64,
    /// The topmost process of the tree.
    pub(super) root: u32,
    /// What the Hub has to watch over, if the kernel does not.
    pub(super) bounds: Option<Bounds>,
    orders: mpsc::Sender<Order>,
    ended: watch::Receiver<Option<End>>,
}

/// What a process is started with.
pub(super) struct Start<'a> {
    pub(super) launch: &'a Launch,
    pub(super) decided: &'a Decided,
    pub(super) launcher: &'a GuardProgram,
    pub(super) environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    pub(super) listener: std::os::unix::net::UnixListener,
    /// Stays locked as long as something of the tree is left.
    pub(super) lock: File,
    pub(super) log: &'a StderrLog,
}

/// The parts that the owning task needs.
pub(super) struct Owned {
    guard: Guard,
    process: ServerProcess,
    /// Both are read to their end: a full pipe would stop the agent.
    output: [ServerStderr; 2],
    redactor: Arc<Redactor>,
    orders: mpsc::Receiver<Order>,
    ended: watch::Sender<Option<End>>,
}

/// Starts the process; it has not confined itself yet when this returns. The second part is to be run by a task.
pub(super) async fn start(
    start: Start<'_>,
    api: AgentApi,
) -> Result<(Running, Owned), RuntimeError> {
    let no_start = |error: &dyn std::fmt::Display| RuntimeError::NoStart(error.to_string());
    let plan = serde_json::to_string(&start.decided.plan).map_err(|error| no_start(&error))?;
    let name = ServerName::new(start.launch.tenant.as_str());
    let guard = Guard::new(start.launcher.clone()).holding(start.lock);
    let request = SpawnRequest {
        server: name.clone(),
        program: start.launcher.path.clone(),
        args: vec![launcher::ARGUMENT.into(), plan.into()],
        environment: start.environment,
        cwd: Some(super::environment::workspace(&start.launch.home)),
        // The launcher confines itself: it has more to do than a server, and some of it as another user.
        sandbox: None,
    };
    let handed = super::environment::keys(start.launch)
        .into_file()
        .and_then(|keys| handover::send(start.listener.as_fd(), &keys))
        .map_err(|error| no_start(&error))?;
    let child = guard
        .spawn_on(request, handed.as_fd())
        .await
        .map_err(|error| no_start(&error))?;
    let root = guard
        .pid()
        .ok_or_else(|| no_start(&"its guard has ended"))?;
    let Child {
        stdout,
        stderr,
        process,
        ..
    } = child;
    let pid = process.pid();
    let secrets = start.launch.env.values().cloned();
    let redactor = Arc::new(Redactor::new(
        secrets.chain([start.launch.runtime_key.clone()]),
    ));
    let output = [stderr, stdout].map(|pipe| {
        let redactor = Arc::clone(&redactor);
        start.log.drain(&name, pid, "agent", redactor, pipe)
    });
    let (order, orders) = mpsc::channel(ORDERS);
    let (end, ended) = watch::channel(None);
    let running = Running {
        api,
        pid,
        start_time: process.start_time(),
        root,
        bounds: start.decided.is_watched.then_some(Bounds {
            memory: start.launch.limits.memory_bytes,
            niceness: start.decided.plan.niceness,
        }),
        orders: order,
        ended,
    };
    let owned = Owned {
        guard,
        process,
        output,
        redactor,
        orders,
        ended: end,
    };
    Ok((running, owned))
}

impl Running {
    /// Why it has ended, if it has.
    pub(super) fn end(&self) -> Option<End> {
        self.ended.borrow().clone()
    }

    /// Waits for its end, and returns why.
    pub(super) async fn ended(&self) -> End {
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some).await;
        end.ok()
            .and_then(|end| end.clone())
            // The Hub let go of it.
            .unwrap_or(End::Ordered)
    }

    /// Whether its process is gone, which may be known before its end has been looked into.
    pub(super) fn is_gone(&self) -> bool {
        self.end().is_some() || !hermes_mcp::process::may_be_running(self.pid, self.start_time)
    }

    /// Stops it and waits until nothing of it is left.
    pub(super) async fn stop(&self, patience: Duration) {
        let (done, stopped) = oneshot::channel();
        let order = Order::Stop { patience, done };
        if self.orders.send(order).await.is_ok() {
            let _ = stopped.await;
        }
        self.ended().await;
    }

    /// Ends it at once.
    pub(super) fn kill(&self, death: Death) {
        // A full queue holds commands to end already.
        let _ = self.orders.try_send(Order::Kill(death));
    }
}

impl Owned {
    /// Waits for the end of the process or for an order to end it, and cleans up. `hit_memory_limit` tells whether the
    /// kernel ended it for its memory.
    pub(super) async fn own(
        mut self,
        hit_memory_limit: impl Fn() -> bool,
        clean_up: impl FnOnce(),
    ) {
        let (end, done) = tokio::select! {
            // An order that comes after the end changes nothing about its cause.
            biased;
            exit = self.process.exited() => {
                let cause = cause(exit, &hit_memory_limit);
                let details = self.last_words().await;
                (End::Died(Death { cause, details }), None)
            }
            order = self.orders.recv() => match order {
                Some(Order::Stop { patience, done }) => {
                    self.ask_to_leave(patience).await;
                    (End::Ordered, Some(done))
                }
                Some(Order::Kill(death)) => {
                    self.signal(rustix::process::Signal::KILL);
                    (End::Died(death), None)
                }
                // The Hub let go of it.
                None => (End::Ordered, None),
            },
        };
        if let Err(error) = self.process.stop().await {
            tracing::warn!(%error, "stopping the agent's process failed");
        }
        drop(self.guard);
        clean_up();
        let _ = self.ended.send(Some(end));
        if let Some(done) = done {
            let _ = done.send(());
        }
    }

    async fn ask_to_leave(&mut self, patience: Duration) {
        self.signal(rustix::process::Signal::TERM);
        let _ = timeout(patience, self.process.exited()).await;
    }

    fn signal(&self, signal: rustix::process::Signal) {
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
    async fn last_words(&mut self) -> String {
        let [stderr, _] = &mut self.output;
        stderr.settle().await;
        let lines = stderr.tail();
        let last = lines.len().saturating_sub(LAST_LINES);
        let words = lines[last..].join(" / ");
        self.redactor.redact(&words).into_owned()
    }
}

fn cause(exit: Exit, hit_memory_limit: impl Fn() -> bool) -> DeathCause {
    match exit {
        Exit::Signal(9) if hit_memory_limit() => DeathCause::MemoryLimit,
        Exit::Code(code) => DeathCause::Exit(code),
        Exit::Signal(signal) => DeathCause::Signal(signal),
        Exit::Unknown => DeathCause::Unknown,
    }
}
