//! The client side: has a process that is connected to a server make a request to it.

use std::{collections::VecDeque, io, path::Path, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FusedFuture, FutureExt};
use hermes_config::{Home, ServerName};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use super::{Answer, Question, RequestQuestion, is_deserted, sockets};
use crate::{
    call::ProgressSink,
    host::{RequestReport, ServerRequest},
    protocol::{ElicitRequestParams, ElicitResult},
};

/// How long a process may take to accept a request.
const ACCEPT_LIMIT: Duration = Duration::from_secs(2);

/// Asks the person who waits for the request.
pub type PersonAnswer =
    Arc<dyn Fn(ElicitRequestParams) -> BoxFuture<'static, ElicitResult> + Send + Sync>;

/// What is called while a request runs.
pub struct Caller {
    /// Is told about progress.
    pub on_progress: ProgressSink,
    /// Answers the server's questions, if somebody is there.
    pub person: Option<PersonAnswer>,
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
pub async fn request(
    home: &Home,
    mut question: RequestQuestion,
    caller: &Caller,
) -> Option<Result<RequestReport, RequestLost>> {
    question.can_answer = caller.person.is_some();
    let mut line = serde_json::to_vec(&Question::Request(question)).ok()?;
    line.push(b'\n');
    for (pid, path) in sockets(home) {
        let accepted =
            tokio::time::timeout(ACCEPT_LIMIT, ControlConnection::open(&path, &line)).await;
        match accepted {
            Ok(Ok(Some(connection))) => {
                let report = connection.follow(caller).await;
                return Some(report.map_err(|reason| RequestLost { pid, reason }));
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) if is_deserted(&error) => {
                let _ = std::fs::remove_file(&path);
            }
            Ok(Err(error)) => tracing::debug!(pid, %error, "control request failed"),
            Err(_) => tracing::debug!(pid, "control request timed out"),
        }
    }
    None
}

/// The tools that a running process knows of a server, without waking anything. For whoever cannot wait.
pub fn known_tools(home: &Home, server: &ServerName, limit: Duration) -> Option<RequestReport> {
    let question = Question::Request(RequestQuestion {
        server: server.clone(),
        request: ServerRequest::ListTools,
        timeout: Some(limit),
        can_answer: false,
    });
    let is_ready = |answer: &Answer| match answer {
        Answer::Status { servers } => servers
            .iter()
            .any(|status| status.name == server.as_str() && status.connected),
        _ => false,
    };
    sockets(home).into_iter().find_map(|(_, path)| {
        let status = super::ask_one(&path, &Question::Status, limit).ok()?;
        if !is_ready(&status) {
            return None;
        }
        let mut answers = super::ask_on(&path, &question, limit).ok()?;
        match (answers.next()?.ok()?, answers.next()?.ok()?) {
            (Answer::Accepted, Answer::Done { report }) => Some(report),
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
            Answer::Accepted => Ok(Some(connection)),
            _ => Ok(None),
        }
    }

    async fn read(&mut self) -> io::Result<Answer> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }

    async fn follow(mut self, caller: &Caller) -> io::Result<RequestReport> {
        let mut asking = futures::future::Fuse::terminated();
        let mut questions = VecDeque::new();
        let mut line = Vec::new();
        loop {
            if asking.is_terminated()
                && let Some(request) = questions.pop_front()
                && let Some(person) = &caller.person
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
                        Answer::Progress(progress) => (caller.on_progress)(&progress),
                        Answer::Elicit { request } => questions.push_back(request),
                        Answer::Done { report } => return Ok(report),
                        _ => {}
                    }
                    line.clear();
                }
                result = &mut asking, if !asking.is_terminated() => {
                    let mut answer = serde_json::to_vec(&Question::Elicited { result })?;
                    answer.push(b'\n');
                    self.stream.write_all(&answer).await?;
                }
            }
        }
    }
}
