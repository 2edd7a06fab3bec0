//! How commands talk to the running processes of a home: a Unix socket per process in `<home>/run/`.
//!
//! One JSON object per line each way. The asking side is synchronous, so that a short command needs no runtime; only
//! what may take its time and can be interrupted, a request to a server, is not.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use hermes_config::{Home, ServerName, Settings, SettingsError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use crate::{
    host::{Host, ReloadReport, RequestReport, ServerRequest},
    manifest::create_private_directory,
    protocol::{ElicitRequestParams, ElicitResult},
    session::Progress,
    status::ServerStatus,
};

mod caller;
mod request;

pub use caller::{Caller, PersonAnswer, RequestLost, known_tools, request};

/// The longest socket path that every Unix accepts.
const LONGEST_PATH: usize = 100;
/// The most one connection may send: calls have arguments of any size, and only the user can connect.
const LONGEST_REQUEST: u64 = 256 * 1024 * 1024;

/// What a running process can be asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Question {
    /// The state of every server.
    Status,
    /// Read the configuration again.
    Reload,
    /// Try a server now, or ask it whether it is there.
    Wake {
        server: ServerName,
    },
    /// Ask something of a server. Who hangs up takes the request back.
    Request(RequestQuestion),
    /// To [`Answer::Elicit`]: what the person said.
    Elicited {
        result: ElicitResult,
    },
}

/// A request to a server, made for somebody in another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestQuestion {
    pub server: ServerName,
    pub request: ServerRequest,
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
pub enum Answer {
    /// To [`Question::Status`].
    Status {
        /// In the order of the configuration.
        servers: Vec<ServerStatus>,
    },
    /// To [`Question::Reload`].
    Reloaded {
        report: ReloadReport,
    },
    /// To [`Question::Wake`].
    Woken,
    /// To [`Question::Request`]: this process has no session with the server and gets none.
    NotHere,
    /// To [`Question::Request`]: it is being done.
    Accepted,
    /// How far it is.
    Progress(Progress),
    /// The server asks the person.
    Elicit {
        request: ElicitRequestParams,
    },
    /// What came of it.
    Done {
        report: RequestReport,
    },
    /// The question could not be answered.
    Refused {
        reason: String,
    },
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
        create_private_directory(&directory)?;
        let path = directory.join(format!("host-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut paths = vec![path.clone()];
        let mut bound = path.clone();
        if path.as_os_str().len() > LONGEST_PATH {
            // Too long for a socket: it lives elsewhere, and a link leads there.
            let elsewhere = short_directory()?;
            bound = elsewhere.join(format!("{}-{}.sock", std::process::id(), mark(home)));
            let _ = std::fs::remove_file(&bound);
            std::os::unix::fs::symlink(&bound, &path)?;
            paths.push(bound.clone());
        }
        let listener = tokio::net::UnixListener::bind(&bound)?;
        std::fs::set_permissions(&bound, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(Self { listener, paths })
    }

    /// Serves questions about this host for as long as it is polled.
    pub async fn serve(&self, host: &Host) {
        let reload = |host: Host| async move { host.reload_from_home().await };
        self.serve_with(host, reload).await;
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
                            let answer = |question| answer(&host, question, &reload);
                            if let Err(error) = converse(stream, &host, answer).await {
                                tracing::debug!(%error, "control connection failed");
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accepting a control connection failed");
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
type QuestionLines =
    tokio::io::Lines<tokio::io::BufReader<tokio::io::Take<tokio::net::unix::OwnedReadHalf>>>;

async fn converse<F>(
    stream: tokio::net::UnixStream,
    host: &Host,
    answer: impl Fn(Question) -> F,
) -> io::Result<()>
where
    F: Future<Output = Answer>,
{
    let (reader, mut writer) = stream.into_split();
    let reader = tokio::io::AsyncReadExt::take(reader, LONGEST_REQUEST);
    let mut lines = tokio::io::BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match serde_json::from_str(&line) {
            Ok(Question::Request(question)) => {
                request::serve(host, question, &mut lines, &mut writer).await?;
                continue;
            }
            Ok(question) => answer(question).await,
            Err(error) => Answer::Refused {
                reason: error.to_string(),
            },
        };
        write_answer(&mut writer, &answer).await?;
    }
    Ok(())
}

async fn write_answer(
    writer: &mut tokio::net::unix::OwnedWriteHalf,
    answer: &Answer,
) -> io::Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    writer.write_all(&text).await
}

async fn answer<F>(host: &Host, question: Question, reload: impl Fn(Host) -> F) -> Answer
where
    F: Future<Output = Result<ReloadReport, SettingsError>>,
{
    match question {
        Question::Status => Answer::Status {
            servers: host.status(),
        },
        Question::Reload => match reload(host.clone()).await {
            Ok(report) => Answer::Reloaded { report },
            Err(error) => Answer::Refused {
                reason: error.to_string(),
            },
        },
        Question::Wake { server } => {
            host.check(&server).await;
            Answer::Woken
        }
        Question::Request(_) | Question::Elicited { .. } => Answer::Refused {
            reason: "nothing was asked".to_owned(),
        },
    }
}

impl Host {
    /// Reads the home's configuration again and applies it. A file that cannot be read changes nothing.
    pub async fn reload_from_home(&self) -> Result<ReloadReport, SettingsError> {
        let settings = Settings::load(self.home())?;
        Ok(self.reload(&settings).await)
    }
}

/// One running process and its answer.
#[derive(Debug)]
pub struct Reply {
    pub pid: u32,
    pub answer: Answer,
}

/// Asks every running process of a home. Sockets that nobody answers are cleared away.
pub fn ask(home: &Home, question: &Question, limit: Duration) -> Vec<Reply> {
    let mut replies = Vec::new();
    for (pid, path) in sockets(home) {
        match ask_one(&path, question, limit) {
            Ok(answer) => replies.push(Reply { pid, answer }),
            Err(error) if is_deserted(&error) => {
                let _ = std::fs::remove_file(&path);
            }
            Err(error) => tracing::debug!(pid, %error, "control request failed"),
        }
    }
    replies
}

/// The sockets of a home's processes, by their ids.
fn sockets(home: &Home) -> Vec<(u32, PathBuf)> {
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
fn is_deserted(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
    )
}

fn ask_one(path: &Path, question: &Question, limit: Duration) -> io::Result<Answer> {
    let mut answers = ask_on(path, question, limit)?;
    let nothing = || Err(io::ErrorKind::UnexpectedEof.into());
    answers.next().unwrap_or_else(nothing)
}

/// Asks at one socket; the answers come as they are read.
fn ask_on(
    path: &Path,
    question: &Question,
    limit: Duration,
) -> io::Result<impl Iterator<Item = io::Result<Answer>>> {
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
fn mark(home: &Home) -> String {
    let hash = Sha256::digest(home.path().as_os_str().as_encoded_bytes());
    let [a, b, c, d, ..]: [u8; 32] = hash.into();
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// A private directory with a short name.
fn short_directory() -> io::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let directory = PathBuf::from(format!("/tmp/hermes-{user}"));
    create_private_directory(&directory)?;
    let metadata = std::fs::metadata(&directory)?;
    if std::os::unix::fs::MetadataExt::uid(&metadata) != user {
        return Err(io::Error::other(format!(
            "{} belongs to somebody else",
            directory.display()
        )));
    }
    Ok(directory)
}
