//! The files of a tenant's groups, asked of the Hub over its private routes.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hermes_agent::tools::files::teams::{
    FileLines, GrepMatch, GroupPath, MemberGroup, SearchResults, Shares, SharesError, SharesFuture,
    Teams, WriteOutcome,
};
use hermes_config::{Secret, sync::RwLock};
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url, header};
use serde::Deserialize;
use serde_json::{Value, json};

const SOCKET_VARIABLE: &str = "HERMES_HUB_SOCKET";

/// Request timeout: a search may take five seconds in the Hub, and queue before that.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of search results from the Hub.
const MAX_RESULTS: u64 = 1000;

/// The runtime key of a home, which may become another one while its agent runs. Clones are the same key.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeKey(Arc<RwLock<Secret<String>>>);

impl RuntimeKey {
    pub(crate) fn new(key: Secret<String>) -> Self {
        Self(Arc::new(RwLock::new(key)))
    }

    /// Presents another one from now on.
    pub(crate) fn replace(&self, key: Secret<String>) {
        *self.0.write() = key;
    }

    fn get(&self) -> Secret<String> {
        let key = self.0.read();
        key.clone()
    }
}

/// The Hub, as a tenant's agent sees it.
#[derive(Debug)]
pub(crate) struct HubShares {
    client: Client,
    key: RuntimeKey,
    /// The descriptor that the client's path to the socket goes by.
    _directory: Option<std::fs::File>,
}

/// The files of the groups, if this process belongs to a Hub that has private routes.
pub(crate) fn from_environment(
    key: Option<&Secret<String>>,
    workspace: &Path,
) -> Option<Arc<Teams>> {
    let socket = std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from)?;
    connect(&socket, RuntimeKey::new(key?.clone()), workspace)
}

/// The files of the groups, by way of the Hub's private routes.
pub(crate) fn connect(socket: &Path, key: RuntimeKey, workspace: &Path) -> Option<Arc<Teams>> {
    match HubShares::connect(socket, key) {
        Ok(shares) => Some(Arc::new(Teams::new(Arc::new(shares), workspace))),
        Err(error) => {
            tracing::warn!(%error, "cannot connect to the Hub for group files");
            None
        }
    }
}

impl HubShares {
    fn connect(socket: &Path, key: RuntimeKey) -> io::Result<Self> {
        let (path, directory) = short_socket_path(socket)?;
        let client = Client::builder()
            .unix_socket(path)
            .no_proxy()
            // There is no TLS on a socket, and roots take milliseconds to read.
            .tls_certs_only([])
            .timeout(REQUEST_TIMEOUT)
            .build()
            .map_err(io::Error::other)?;
        Ok(Self {
            client,
            key,
            _directory: directory,
        })
    }

    fn request(
        &self,
        method: Method,
        path: Option<&GroupPath>,
        route: &[&str],
        query: &[(&str, &str)],
    ) -> Result<RequestBuilder, SharesError> {
        let mut url = Url::parse("http://hub/internal/v1/shares").map_err(unexpected_reply)?;
        {
            let mut segments = url.path_segments_mut().map_err(unexpected_reply)?;
            segments.extend(path.map(|path| &path.group));
            segments.extend(route);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(self
            .client
            .request(method, url)
            .bearer_auth(self.key.get().expose()))
    }

    async fn get<T: for<'de> Deserialize<'de>>(
        &self,
        path: Option<&GroupPath>,
        route: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, SharesError> {
        let (_, body) = send_request(self.request(Method::GET, path, route, query)?).await?;
        serde_json::from_value(body).map_err(unexpected_reply)
    }
}

/// Paths of sockets must be short: a long one is named by way of its directory's descriptor.
fn short_socket_path(socket: &Path) -> io::Result<(PathBuf, Option<std::fs::File>)> {
    const LONGEST: usize = 100;
    if socket.as_os_str().len() <= LONGEST {
        return Ok((socket.to_owned(), None));
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, Mode, OFlags, openat};
        use std::os::fd::AsRawFd;
        let directory = socket.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = std::fs::File::from(openat(CWD, directory, flags, Mode::empty())?);
        let path = Path::new("/proc/self/fd")
            .join(opened.as_raw_fd().to_string())
            .join(socket.file_name().unwrap_or_default());
        Ok((path, Some(opened)))
    }
    #[cfg(not(target_os = "linux"))]
    Err(io::Error::other("the path of the Hub's socket is too long"))
}

fn unexpected_reply(error: impl std::fmt::Debug) -> SharesError {
    tracing::warn!(?error, "unexpected reply from the Hub");
    SharesError("unexpected reply from the Hub".into())
}

/// Sends something, and tells the status and the document that came back.
async fn send_request(request: RequestBuilder) -> Result<(StatusCode, Value), SharesError> {
    let response = request.send().await.map_err(|error| {
        tracing::warn!(?error, "Hub request failed");
        SharesError("cannot reach the Hub that stores group files; try again".into())
    })?;
    let status = response.status();
    let text = response.bytes().await.map_err(unexpected_reply)?;
    let body: Value = if text.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&text).map_err(unexpected_reply)?
    };
    if status.is_success() {
        return Ok((status, body));
    }
    let message = body["message"].as_str().unwrap_or("the Hub refused it");
    Err(SharesError(message.to_owned()))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupReply {
    group_id: String,
    access: String,
}

#[derive(Deserialize)]
struct GroupsReply {
    shares: Vec<GroupReply>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TextReply {
    content: String,
    total_lines: usize,
    next_offset: Option<usize>,
    etag: String,
}

#[derive(Deserialize)]
struct MatchesReply {
    matches: Vec<MatchReply>,
    truncated: bool,
}

#[derive(Deserialize)]
struct MatchReply {
    path: String,
    line: u64,
    text: String,
}

#[derive(Deserialize)]
struct PathsReply {
    paths: Vec<PathReply>,
    truncated: bool,
}

#[derive(Deserialize)]
struct PathReply {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

impl Shares for HubShares {
    fn groups(&self) -> SharesFuture<'_, Vec<MemberGroup>> {
        Box::pin(async move {
            let shown: GroupsReply = self.get(None, &[], &[]).await?;
            let groups = shown.shares.into_iter().map(|share| MemberGroup {
                id: share.group_id,
                access: share.access,
            });
            Ok(groups.collect())
        })
    }

    fn read<'a>(
        &'a self,
        path: &'a GroupPath,
        offset: usize,
        limit: usize,
    ) -> SharesFuture<'a, FileLines> {
        Box::pin(async move {
            let (offset, limit) = (offset.to_string(), limit.to_string());
            let query = [
                ("path", path.path.as_str()),
                ("offset", &offset),
                ("limit", &limit),
            ];
            let shown: TextReply = self.get(Some(path), &["files", "content"], &query).await?;
            Ok(FileLines {
                content: shown.content,
                total_lines: shown.total_lines,
                next: shown.next_offset,
                version: shown.etag,
            })
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a GroupPath,
        content: String,
        version: Option<&'a str>,
    ) -> SharesFuture<'a, WriteOutcome> {
        Box::pin(async move {
            let mut request = self
                .request(Method::PUT, Some(path), &["files", "content"], &[])?
                .json(&json!({"path": path.path, "content": content}));
            if let Some(version) = version {
                request = request.header(header::IF_MATCH, version);
            }
            let (status, _) = send_request(request).await?;
            Ok(if status == StatusCode::CREATED {
                WriteOutcome::Created
            } else {
                WriteOutcome::Replaced
            })
        })
    }

    fn remove<'a>(&'a self, path: &'a GroupPath, version: &'a str) -> SharesFuture<'a, ()> {
        Box::pin(async move {
            let query = [("path", path.path.as_str())];
            let request = self.request(Method::DELETE, Some(path), &["files"], &query)?;
            send_request(request.header(header::IF_MATCH, version)).await?;
            Ok(())
        })
    }

    fn grep<'a>(
        &'a self,
        path: &'a GroupPath,
        pattern: &'a str,
    ) -> SharesFuture<'a, SearchResults<GrepMatch>> {
        Box::pin(async move {
            let request = self
                .request(Method::POST, Some(path), &["grep"], &[])?
                .json(&json!({"pattern": pattern, "path": path.path, "max": MAX_RESULTS}));
            let (_, body) = send_request(request).await?;
            let shown: MatchesReply = serde_json::from_value(body).map_err(unexpected_reply)?;
            let items = shown.matches.into_iter().map(|one| GrepMatch {
                path: one.path,
                line: one.line,
                text: one.text,
            });
            Ok(SearchResults {
                items: items.collect(),
                is_cut: shown.truncated,
            })
        })
    }

    fn find<'a>(
        &'a self,
        path: &'a GroupPath,
        name: &'a str,
    ) -> SharesFuture<'a, SearchResults<String>> {
        Box::pin(async move {
            let most = MAX_RESULTS.to_string();
            let query = [("path", path.path.as_str()), ("name", name), ("max", &most)];
            let shown: PathsReply = self.get(Some(path), &["find"], &query).await?;
            let items = shown.paths.into_iter().map(|one| match one.kind.as_str() {
                "dir" => format!("{}/", one.path),
                _ => one.path,
            });
            Ok(SearchResults {
                items: items.collect(),
                is_cut: shown.truncated,
            })
        })
    }

    fn exists<'a>(&'a self, path: &'a GroupPath) -> SharesFuture<'a, bool> {
        Box::pin(async move {
            let query = [("path", path.path.as_str())];
            let request = self.request(Method::GET, Some(path), &["stat"], &query)?;
            let response = request.send().await.map_err(unexpected_reply)?;
            match response.status() {
                StatusCode::NOT_FOUND => Ok(false),
                status if status.is_success() => Ok(true),
                status => Err(SharesError(format!("{path}: the Hub answered {status}"))),
            }
        })
    }
}
