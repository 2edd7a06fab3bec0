//! How commands talk to the running processes of a home: a Unix socket per process in `<home>/run/`.
//!
//! One JSON object per line each way. The asking side is synchronous, so that a short command needs no runtime; only
//! what may take its time and can be interrupted, a request to a server, is not. The kernel names the peer: commands of
//! an agent get states and lists, and nothing else.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_config::{Home, ServerName, Settings, SettingsError, private_file::create_private_dir};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use crate::{
    connection::session::Progress,
    control::request::PeerRights,
    host::{Host, HostRequest, ReloadReport, RequestOutcome, status::ServerStatus},
    protocol::{ElicitRequestParams, ElicitResult},
};

mod client;
mod request;

pub use crate::control::client::{
    ElicitCallback, RequestCallbacks, RequestLost, query_tools, request,
};

/// The longest socket path that every Unix accepts.
const MAX_SOCKET_PATH: usize = 100;
/// The most one connection may send: calls have arguments of any size, and only the user can connect.
const MAX_REQUEST_BYTES: u64 = 256 * 1024 * 1024;

/// What a running process can be asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum ControlRequest {
    /// The state of every server.
    Status,
    /// Read the configuration again.
    Reload,
    /// Try a server now, or ask it whether it is there.
    Wake { server: ServerName },
    /// Ask something of a server. Who hangs up takes the request back.
    Request(ForwardedRequest),
    /// To [`ControlResponse::Elicit`]: what the person said.
    Elicited { result: ElicitResult },
}

/// A request to a server, made for somebody in another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForwardedRequest {
    pub server: ServerName,
    pub request: HostRequest,
    /// Instead of the server's own `timeout`.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// Whether the server may ask the person who waits for it.
    #[serde(default)]
    pub can_answer: bool,
}

/// What it answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ControlResponse {
    /// To [`ControlRequest::Status`].
    Status {
        /// In the order of the configuration.
        servers: Vec<ServerStatus>,
    },
    /// To [`ControlRequest::Reload`].
    Reloaded { report: ReloadReport },
    /// To [`ControlRequest::Wake`].
    Woken,
    /// To [`ControlRequest::Request`]: this process has no session with the server and gets none.
    NotHere,
    /// To [`ControlRequest::Request`]: it is being done.
    Accepted,
    /// How far it is.
    Progress(Progress),
    /// The server asks the person.
    Elicit { request: ElicitRequestParams },
    /// What came of it.
    Done { report: RequestOutcome },
    /// The question could not be answered.
    Refused { reason: String },
}

/// Answers questions until it is dropped or its future is.
#[derive(Debug)]
pub struct ControlSocket {
    listener: tokio::net::UnixListener,
    paths: Vec<PathBuf>,
}

impl ControlSocket {
    /// Opens this process's socket in the home.
    pub fn open(home: &Home) -> io::Result<Self> {
        let directory = home.run_dir();
        create_private_dir(&directory)?;
        let path = directory.join(format!("host-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut paths = vec![path.clone()];
        let mut bound = path.clone();
        if path.as_os_str().len() > MAX_SOCKET_PATH {
            // Too long for a socket: it lives elsewhere, and a link leads there.
            let elsewhere = short_directory()?;
            bound = elsewhere.join(format!("{}-{}.sock", std::process::id(), home_digest(home)));
            let _ = std::fs::remove_file(&bound);
            std::os::unix::fs::symlink(&bound, &path)?;
            paths.push(bound.clone());
        }
        let listener = tokio::net::UnixListener::bind(&bound)?;
        std::fs::set_permissions(&bound, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(Self { listener, paths })
    }

    /// Serves questions about this host for as long as it is polled.
    pub fn serve<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let reload = |host: Host| async move { host.reload_from_home().await };
            self.serve_with(host, reload).await;
        })
    }

    /// The same where more than the servers works with the configuration: it is read again by other means.
    pub async fn serve_with<R, F>(&self, host: &Host, reload: R)
    where
        R: Fn(Host) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<ReloadReport, SettingsError>> + Send,
    {
        let mut clients = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let (host, reload) = (host.clone(), reload.clone());
                        clients.spawn(async move {
                            let handle_request = |question| handle_request(&host, question, &reload);
                            if let Err(error) = serve_connection(stream, &host, handle_request).await {
                                tracing::debug!(%error, "control connection failed");
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "failed to accept a control connection");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                },
                Some(_) = clients.join_next() => {}
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The lines that somebody sends.
type RequestLines =
    tokio::io::Lines<tokio::io::BufReader<tokio::io::Take<tokio::net::unix::OwnedReadHalf>>>;

async fn serve_connection<F>(
    stream: tokio::net::UnixStream,
    host: &Host,
    answer: impl Fn(ControlRequest) -> F,
) -> io::Result<()>
where
    F: Future<Output = ControlResponse>,
{
    let rights = PeerRights::of(&stream);
    let (reader, mut writer) = stream.into_split();
    let reader = tokio::io::AsyncReadExt::take(reader, MAX_REQUEST_BYTES);
    let mut lines = tokio::io::BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let question = match serde_json::from_str(&line) {
            Ok(question) => question,
            Err(error) => {
                let reason = error.to_string();
                write_response(&mut writer, &ControlResponse::Refused { reason }).await?;
                continue;
            }
        };
        let answer = match (rights.refusal(&question), question) {
            (Some(refusal), _) => refusal,
            (None, ControlRequest::Request(question)) => {
                request::serve_request(host, question, &mut lines, &mut writer).await?;
                continue;
            }
            (None, question) => answer(question).await,
        };
        write_response(&mut writer, &answer).await?;
    }
    Ok(())
}

async fn write_response(
    writer: &mut tokio::net::unix::OwnedWriteHalf,
    answer: &ControlResponse,
) -> io::Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    writer.write_all(&text).await
}

async fn handle_request<F>(
    host: &Host,
    question: ControlRequest,
    reload: impl Fn(Host) -> F,
) -> ControlResponse
where
    F: Future<Output = Result<ReloadReport, SettingsError>>,
{
    match question {
        ControlRequest::Status => ControlResponse::Status {
            servers: host.status(),
        },
        ControlRequest::Reload => match reload(host.clone()).await {
            Ok(report) => ControlResponse::Reloaded { report },
            Err(error) => ControlResponse::Refused {
                reason: error.to_string(),
            },
        },
        ControlRequest::Wake { server } => {
            host.check(&server).await;
            ControlResponse::Woken
        }
        ControlRequest::Request(_) | ControlRequest::Elicited { .. } => ControlResponse::Refused {
            reason: "nothing was asked".to_owned(),
        },
    }
}

impl Host {
    /// Reads the home's configuration again and applies it. A file that cannot be read changes nothing.
    pub fn reload_from_home(&self) -> BoxFuture<'_, Result<ReloadReport, SettingsError>> {
        Box::pin(async move {
            let settings = Settings::load(self.home())?;
            Ok(self.reload(&settings).await)
        })
    }
}

/// One running process and its answer.
#[derive(Debug)]
pub struct ProcessResponse {
    pub pid: u32,
    pub response: ControlResponse,
}

/// Asks every running process of a home. Sockets that nobody answers are cleared away.
pub fn query_processes(
    home: &Home,
    question: &ControlRequest,
    limit: Duration,
) -> Vec<ProcessResponse> {
    let mut replies = Vec::new();
    for (pid, path) in list_sockets(home) {
        match query_socket(&path, question, limit) {
            Ok(answer) => replies.push(ProcessResponse {
                pid,
                response: answer,
            }),
            Err(error) if is_stale_socket(&error) => {
                let _ = std::fs::remove_file(&path);
            }
            Err(error) => tracing::debug!(pid, %error, "control request failed"),
        }
    }
    replies
}

/// The sockets of a home's processes, by their ids.
fn list_sockets(home: &Home) -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(home.run_dir()).into_iter().flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    let mut sockets: Vec<(u32, PathBuf)> = paths
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            let pid = name.strip_prefix("host-")?.strip_suffix(".sock")?;
            Some((pid.parse().ok()?, path))
        })
        .collect();
    sockets.sort();
    sockets
}

/// Whether nobody listens at a socket any more.
fn is_stale_socket(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
    )
}

fn query_socket(
    path: &Path,
    question: &ControlRequest,
    limit: Duration,
) -> io::Result<ControlResponse> {
    let mut answers = open_query(path, question, limit)?;
    let nothing = || Err(io::ErrorKind::UnexpectedEof.into());
    answers.next().unwrap_or_else(nothing)
}

/// Asks at one socket; the answers come as they are read.
fn open_query(
    path: &Path,
    question: &ControlRequest,
    limit: Duration,
) -> io::Result<impl Iterator<Item = io::Result<ControlResponse>>> {
    let target = std::fs::read_link(path).unwrap_or_else(|_| path.to_owned());
    let mut stream = UnixStream::connect(target)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let mut line = serde_json::to_vec(question)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let lines = BufReader::new(stream).lines();
    Ok(lines.map(|line| Ok(serde_json::from_str(&line?)?)))
}

/// Tells homes apart that one process serves.
fn home_digest(home: &Home) -> String {
    let hash = Sha256::digest(home.path().as_os_str().as_encoded_bytes());
    let [a, b, c, d, ..]: [u8; 32] = hash.into();
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// A private directory with a short name.
fn short_directory() -> io::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let directory = PathBuf::from(format!("/tmp/hermes-{user}"));
    create_private_dir(&directory)?;
    let metadata = std::fs::metadata(&directory)?;
    if std::os::unix::fs::MetadataExt::uid(&metadata) != user {
        return Err(io::Error::other(format!(
            "{} belongs to another user",
            directory.display()
        )));
    }
    Ok(directory)
}
