//! The client side: has a process that is connected to a server make a request to it.

use std::{collections::VecDeque, io, path::Path, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FusedFuture, FutureExt};
use hermes_config::{Home, ServerName};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use super::{ControlRequest, ControlResponse, ForwardedRequest, is_stale_socket, list_sockets};
use crate::{
    call::ProgressCallback,
    host::{HostRequest, RequestOutcome},
    protocol::{ElicitRequestParams, ElicitResult},
};

/// How long a process may take to accept a request.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks the person who waits for the request.
pub type ElicitCallback =
    Arc<dyn Fn(ElicitRequestParams) -> BoxFuture<'static, ElicitResult> + Send + Sync>;

/// What is called while a request runs.
pub struct RequestCallbacks {
    /// Is told about progress.
    pub on_progress: ProgressCallback,
    /// Answers the server's questions, if somebody is there.
    pub on_elicit: Option<ElicitCallback>,
}

/// The process that did the request went away.
#[derive(Debug, thiserror::Error)]
#[error("the hermes process {pid}, which made the call, ended before the answer came: {reason}")]
pub struct RequestLost {
    pub pid: u32,
    /// What was seen of it.
    pub reason: io::Error,
}

/// Has a running process of the home make a request. `None`: no process has the server.
///
/// To drop the future takes the request back, at the server too.
pub fn request<'a>(
    home: &'a Home,
    mut question: ForwardedRequest,
    caller: &'a RequestCallbacks,
) -> BoxFuture<'a, Option<Result<RequestOutcome, RequestLost>>> {
    Box::pin(async move {
        question.can_answer = caller.on_elicit.is_some();
        let mut line = serde_json::to_vec(&ControlRequest::Request(question)).ok()?;
        line.push(b'\n');
        for (pid, path) in list_sockets(home) {
            let accepted =
                tokio::time::timeout(ACCEPT_TIMEOUT, ControlConnection::open(&path, &line)).await;
            match accepted {
                Ok(Ok(Some(connection))) => {
                    let report = connection.follow(caller).await;
                    return Some(report.map_err(|reason| RequestLost { pid, reason }));
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) if is_stale_socket(&error) => {
                    let _ = std::fs::remove_file(&path);
                }
                Ok(Err(error)) => tracing::debug!(pid, %error, "control request failed"),
                Err(_) => tracing::debug!(pid, "control request timed out"),
            }
        }
        None
    })
}

/// The tools that a running process knows of a server, without waking anything. For whoever cannot wait.
pub fn query_tools(home: &Home, server: &ServerName, limit: Duration) -> Option<RequestOutcome> {
    let question = ControlRequest::Request(ForwardedRequest {
        server: server.clone(),
        request: HostRequest::ListTools,
        timeout: Some(limit),
        can_answer: false,
    });
    let is_ready = |answer: &ControlResponse| match answer {
        ControlResponse::Status { servers } => servers
            .iter()
            .any(|status| status.name == server.as_str() && status.connected),
        _ => false,
    };
    list_sockets(home).into_iter().find_map(|(_, path)| {
        let status = super::query_socket(&path, &ControlRequest::Status, limit).ok()?;
        if !is_ready(&status) {
            return None;
        }
        let mut answers = super::open_query(&path, &question, limit).ok()?;
        match (answers.next()?.ok()?, answers.next()?.ok()?) {
            (ControlResponse::Accepted, ControlResponse::Done { report }) => Some(report),
            _ => None,
        }
    })
}

/// A process that has taken the request.
struct ControlConnection {
    stream: BufReader<UnixStream>,
}

impl ControlConnection {
    /// Sends the request; `None` if the process does not have the server.
    async fn open(path: &Path, line: &[u8]) -> io::Result<Option<Self>> {
        let target = std::fs::read_link(path).unwrap_or_else(|_| path.to_owned());
        let mut stream = UnixStream::connect(target).await?;
        stream.write_all(line).await?;
        let mut connection = Self {
            stream: BufReader::new(stream),
        };
        match connection.read().await? {
            ControlResponse::Accepted => Ok(Some(connection)),
            _ => Ok(None),
        }
    }

    async fn read(&mut self) -> io::Result<ControlResponse> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }

    async fn follow(mut self, caller: &RequestCallbacks) -> io::Result<RequestOutcome> {
        let mut asking = futures::future::Fuse::terminated();
        let mut questions = VecDeque::new();
        let mut line = Vec::new();
        loop {
            if asking.is_terminated()
                && let Some(request) = questions.pop_front()
                && let Some(person) = &caller.on_elicit
            {
                asking = person(request).fuse();
            }
            tokio::select! {
                read = self.stream.read_until(b'\n', &mut line) => {
                    read?;
                    if line.is_empty() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    match serde_json::from_slice(&line)? {
                        ControlResponse::Progress(progress) => (caller.on_progress)(&progress),
                        ControlResponse::Elicit { request } => questions.push_back(request),
                        ControlResponse::Done { report } => return Ok(report),
                        _ => {}
                    }
                    line.clear();
                }
                result = &mut asking, if !asking.is_terminated() => {
                    let mut answer = serde_json::to_vec(&ControlRequest::Elicited { result })?;
                    answer.push(b'\n');
                    self.stream.write_all(&answer).await?;
                }
            }
        }
    }
}
