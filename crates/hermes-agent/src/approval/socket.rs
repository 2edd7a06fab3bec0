//! The Unix socket over which other processes of the home submit decisions to this one.
//!
//! It is in `run/` of the home and named after the process that asks. One JSON object per line each way. The kernel
//! identifies the peer: it must belong to the same user, and must not be a process that this one has started, even if
//! it has detached itself.

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use hermes_config::{
    Home,
    private_file::{FileOwner, create_private_dirs},
};
use hermes_mcp::process::descendants::is_descendant;
use hermes_store::runtime::ApprovalAnswer;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::decisions::{self, PendingDecisions, SubmitOutcome, SubmittedDecision};

/// Enough for an id, an answer and a reason.
const MAX_LINE_BYTES: u64 = 64 * 1024;
/// How long to wait for the peer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Paths of sockets must be short.
const MAX_SOCKET_PATH: usize = 100;

static NEXT_SOCKET_ID: AtomicU64 = AtomicU64::new(0);

#[derive(Serialize, Deserialize)]
struct DecisionMessage {
    id: String,
    answer: String,
    by: String,
    reason: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct DecisionReply {
    taken: SubmitOutcome,
}

/// The socket of a process with pending requests. It is removed when closed or dropped.
pub(super) struct DecisionSocket {
    path: PathBuf,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl DecisionSocket {
    pub(super) fn open(home: &Home, waiting: PendingDecisions) -> io::Result<Self> {
        let directory = home.run_dir();
        create_private_dirs(&directory, FileOwner::Writer)?;
        let number = NEXT_SOCKET_ID.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{number}.sock", socket_prefix(std::process::id()));
        let path = directory.join(&name);
        let _ = std::fs::remove_file(&path);
        let listener = with_short_path(&directory, &name, |path| UnixListener::bind(path))?;
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn({
            let stop = stop.clone();
            async move {
                let _ = stop
                    .run_until_cancelled(accept_decisions(listener, waiting))
                    .await;
            }
        });
        tasks.close();
        Ok(Self { path, stop, tasks })
    }

    pub(super) async fn close(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for DecisionSocket {
    fn drop(&mut self) {
        self.stop.cancel();
        let _ = std::fs::remove_file(&self.path);
    }
}

fn socket_prefix(pid: u32) -> String {
    format!("approvals-{pid}-")
}

/// Calls `act` with the path of a socket, through its directory's descriptor if the path is too long.
fn with_short_path<T>(
    directory: &Path,
    name: &str,
    act: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let path = directory.join(name);
    if path.as_os_str().len() <= MAX_SOCKET_PATH || cfg!(not(target_os = "linux")) {
        return act(&path);
    }
    let opened = std::fs::File::open(directory)?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&opened);
    act(&Path::new("/proc/self/fd")
        .join(number.to_string())
        .join(name))
}

async fn accept_decisions(listener: UnixListener, waiting: PendingDecisions) {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let waiting = waiting.clone();
                    clients.spawn(async move {
                        let answered = tokio::time::timeout(TIMEOUT, handle_connection(stream, &waiting));
                        if let Ok(Err(error)) = answered.await {
                            tracing::debug!(%error, "failed to read a decision");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a decision connection");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            },
            Some(_) = clients.join_next() => {}
        }
    }
}

async fn handle_connection(stream: UnixStream, waiting: &PendingDecisions) -> io::Result<()> {
    let is_welcome = may_decide(&stream);
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(MAX_LINE_BYTES))
        .read_line(&mut line)
        .await?;
    let message: DecisionMessage = serde_json::from_str(&line)?;
    let taken = match ApprovalAnswer::parse(&message.answer) {
        Some(answer) if is_welcome => {
            let given = SubmittedDecision {
                reason: message.reason,
                ..SubmittedDecision::new(answer, message.by)
            };
            decisions::submit_decision(waiting, &message.id, given)
        }
        Some(_) => SubmitOutcome::Refused,
        None => return Err(io::ErrorKind::InvalidData.into()),
    };
    let mut text = serde_json::to_vec(&DecisionReply { taken })?;
    text.push(b'\n');
    writer.write_all(&text).await
}

/// Whether the peer may decide: a process of the same user, or of root, that this one has not started.
fn may_decide(stream: &UnixStream) -> bool {
    let Ok(peer) = stream.peer_cred() else {
        return false;
    };
    let own = rustix::process::geteuid().as_raw();
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    let is_ours = pid.is_none_or(is_descendant) && cfg!(target_os = "linux");
    if is_ours || (peer.uid() != own && peer.uid() != 0) {
        tracing::warn!(
            pid,
            uid = peer.uid(),
            "rejected an approval decision from a process that may not decide"
        );
        return false;
    }
    true
}

/// Submits a decision to the process that asks. `None` if it cannot be reached, or does not answer.
pub async fn send_decision(
    home: &Home,
    owner: u32,
    id: &str,
    given: &SubmittedDecision,
) -> io::Result<Option<SubmitOutcome>> {
    let prefix = socket_prefix(owner);
    let entries = match std::fs::read_dir(home.run_dir()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.starts_with(&prefix).then_some(name)
    });
    let mut reply = None;
    for name in names.collect::<Vec<_>>() {
        let sent = tokio::time::timeout(TIMEOUT, send_to_socket(home, &name, id, given)).await;
        match sent {
            // The request may belong to another socket of that process.
            Ok(Ok(SubmitOutcome::NotWaiting)) => reply = Some(SubmitOutcome::NotWaiting),
            Ok(Ok(taken)) => return Ok(Some(taken)),
            Ok(Err(error)) => tracing::debug!(%error, name, "approval socket is not reachable"),
            Err(_) => tracing::debug!(name, "approval socket did not answer in time"),
        }
    }
    Ok(reply)
}

async fn send_to_socket(
    home: &Home,
    name: &str,
    id: &str,
    given: &SubmittedDecision,
) -> io::Result<SubmitOutcome> {
    let stream = with_short_path(&home.run_dir(), name, |path| {
        let stream = std::os::unix::net::UnixStream::connect(path)?;
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    })?;
    let message = DecisionMessage {
        id: id.to_owned(),
        answer: given.answer.as_str().to_owned(),
        by: given.by.clone(),
        reason: given.reason.clone(),
    };
    let (reader, mut writer) = stream.into_split();
    let mut text = serde_json::to_vec(&message)?;
    text.push(b'\n');
    writer.write_all(&text).await?;
    let mut line = String::new();
    BufReader::new(reader.take(MAX_LINE_BYTES))
        .read_line(&mut line)
        .await?;
    let reply: DecisionReply = serde_json::from_str(&line)?;
    Ok(reply.taken)
}
