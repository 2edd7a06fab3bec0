//! The host's handle to one server process: waits for its exit, and stops it.

use std::{
    fmt, io,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use hermes_config::ServerName;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

use super::{
    deadline::MachineTime,
    wire::{GuardReport, HostOrder},
};

/// How long [`ServerProcess::stop`] waits: two steps of two seconds, and time to kill.
const STOP_TIMEOUT: Duration = Duration::from_secs(6);

/// How a server process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerExit {
    Code(i32),
    Signal(i32),
    /// The guard vanished, which ended it too.
    Unknown,
}

impl ServerExit {
    pub(super) fn from_wait(code: Option<i32>, signal: Option<i32>) -> Self {
        match (code, signal) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for ServerExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::Unknown => f.write_str("ended for an unknown reason"),
        }
    }
}

/// Why a stop is not known to be complete.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// Something of the tree resists SIGKILL; the guard goes on trying.
    #[error(
        "processes of `{server}` (group {pgid}) are still there after {} s; they are being killed in the background",
        STOP_TIMEOUT.as_secs()
    )]
    StillEnding { server: ServerName, pgid: u32 },
    /// The guard was killed by somebody.
    #[error(
        "the guard of `{server}` has ended; its processes (group {pgid}) are being killed, see `hermes mcp ps`"
    )]
    GuardLost { server: ServerName, pgid: u32 },
}

/// One running server. Dropping it ends the server's tree in the background.
#[derive(Debug)]
pub struct ServerProcess {
    server: ServerName,
    pid: u32,
    start_time: u64,
    reports: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
    exit: Option<ServerExit>,
    tree: TreeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TreeState {
    Alive,
    Gone,
    /// There is no guard left to ask.
    Lost,
}

/// The guard's answer to a request.
pub(super) enum StartReply {
    Started(ServerProcess),
    Failed { errno: Option<i32>, message: String },
}

impl ServerProcess {
    /// Waits for the guard to say on `socket` whether the server runs.
    pub(super) async fn await_start(
        server: ServerName,
        socket: UnixStream,
    ) -> io::Result<StartReply> {
        let (reports, orders) = socket.into_split();
        let mut reports = BufReader::new(reports).lines();
        let line = reports
            .next_line()
            .await?
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        match serde_json::from_str(&line)? {
            GuardReport::Started { pid, start_time } => Ok(StartReply::Started(Self {
                server,
                pid,
                start_time,
                reports,
                orders,
                exit: None,
                tree: TreeState::Alive,
            })),
            GuardReport::Failed { errno, message } => Ok(StartReply::Failed { errno, message }),
            GuardReport::Exited(_) | GuardReport::Gone => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    pub fn server(&self) -> &ServerName {
        &self.server
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its process group, which it leads.
    pub fn pgid(&self) -> u32 {
        self.pid
    }

    /// When it started, in clock ticks since boot; 0 where the system does not tell.
    pub fn start_time(&self) -> u64 {
        self.start_time
    }

    /// Waits for the server's own process to end. May be dropped and called again.
    pub async fn exited(&mut self) -> ServerExit {
        loop {
            if let Some(exit) = self.exit {
                return exit;
            }
            self.read_report().await;
        }
    }

    /// Ends the server and everything it started: two seconds to leave by itself, SIGTERM, two seconds, SIGKILL.
    ///
    /// Drop the server's stdin first: that is what asks a server to leave. Returns when nothing is left, after a few
    /// seconds at most. Giving up on the future does not stop the stop.
    pub fn stop(self) -> BoxFuture<'static, Result<ServerExit, StopError>> {
        self.end(HostOrder::Stop)
    }

    /// The same without any delay: all of it gets SIGKILL.
    pub fn kill(self) -> BoxFuture<'static, Result<ServerExit, StopError>> {
        self.end(HostOrder::Kill)
    }

    /// Has the guard kill everything at this time, even if this process stands still then, unless a later time is set
    /// before. Never waits: an order that the guard has no room for is not given.
    pub fn set_deadline(&self, deadline: Instant) {
        let order = HostOrder::KillAt(MachineTime::from_instant(deadline));
        if let Err(error) = self.orders.try_write(&order.encode()) {
            tracing::debug!(server = %self.server, %error, "failed to send a deadline to the guard");
        }
    }

    fn end(mut self, order: HostOrder) -> BoxFuture<'static, Result<ServerExit, StopError>> {
        Box::pin(async move {
            // It fails when the guard is through already; its reports tell.
            let _ = self.orders.write_all(&order.encode()).await;
            let ended = timeout(STOP_TIMEOUT, async {
                while self.tree == TreeState::Alive {
                    self.read_report().await;
                }
            });
            let in_time = ended.await.is_ok();
            let (server, pgid) = (self.server, self.pid);
            match self.tree {
                TreeState::Gone => Ok(self.exit.unwrap_or(ServerExit::Unknown)),
                TreeState::Alive if !in_time => Err(StopError::StillEnding { server, pgid }),
                TreeState::Alive | TreeState::Lost => Err(StopError::GuardLost { server, pgid }),
            }
        })
    }

    async fn read_report(&mut self) {
        let line = self.reports.next_line().await.ok().flatten();
        match line.and_then(|line| serde_json::from_str(&line).ok()) {
            Some(GuardReport::Exited(exit)) => self.exit = Some(exit),
            Some(GuardReport::Gone) => self.tree = TreeState::Gone,
            Some(GuardReport::Started { .. } | GuardReport::Failed { .. }) => {}
            None => {
                self.exit.get_or_insert(ServerExit::Unknown);
                if self.tree == TreeState::Alive {
                    self.tree = TreeState::Lost;
                }
            }
        }
    }
}
