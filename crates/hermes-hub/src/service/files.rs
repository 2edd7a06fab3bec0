//! Reading, searching and downloading from a tenant's workspace.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use super::{NO_DIRECTORY, directory_problem, run_blocking};
use crate::{
    Problem, ProblemCode, TenantId,
    service::call::{Call, Reply, ReplyBody},
    storage::files::{ByteRange, FindQuery, GrepQuery, LineRange, SharePath, Workspace},
};

/// A directory of a workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListWorkspace {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Relative to the workspace; its root if absent.
    path: Option<String>,
}

/// Lines of a file in a workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadWorkspaceFile {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The file.
    path: String,
    /// The first line, from 0.
    offset: Option<u64>,
    /// How many lines; 0 or absent means all that the Hub allows.
    limit: Option<u64>,
}

/// A search in the text files of a workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrepWorkspace {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// A regular expression in Go's syntax, matched line by line.
    pattern: String,
    /// A directory or a file; the whole workspace if absent.
    path: Option<String>,
    /// How many matches at most, 1 to 1000; 100 if absent.
    max: Option<u64>,
    /// Whether to ignore case.
    ignore_case: Option<bool>,
}

/// A search for names in a workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindWorkspaceFiles {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The directory to search; the root if absent.
    path: Option<String>,
    /// A pattern with `*`, `?` and `[a-z]`; with `/` it is matched against the whole path. All files if absent.
    name: Option<String>,
    /// How many at most, 1 to 1000; 100 if absent.
    max: Option<u64>,
}

/// A file in a workspace, or all of a directory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DownloadFile {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The file; with `tar.zst` also a directory, or nothing for the whole workspace.
    path: String,
    /// `raw`, or `tar.zst` for an archive without links.
    format: Option<DownloadFormat>,
}

/// How it is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) enum DownloadFormat {
    /// As it is.
    #[default]
    #[serde(rename = "raw")]
    Raw,
    /// Packed.
    #[serde(rename = "tar.zst")]
    Archive,
}

pub(crate) async fn open_workspace(call: &Call) -> Result<Workspace, Problem> {
    let home = call.hub.home(call.tenant()?);
    let limits = call.hub.file_limits();
    let open = move || Workspace::open(home.path(), "workspace", limits);
    run_blocking(move || open().map_err(|error| directory_problem(&error, "workspace"))).await
}

/// The workspace, to search all of it or below a path. A home that was linked has none before something is in it.
async fn open_to_search(
    call: &Call,
    path: Option<&SharePath>,
) -> Result<Option<Workspace>, Problem> {
    let is_all = path.is_none_or(|path| path.as_str().is_empty());
    match open_workspace(call).await {
        Err(problem) if problem.reason == Some(NO_DIRECTORY) && is_all => Ok(None),
        opened => opened.map(Some),
    }
}

pub(crate) async fn list(call: Call, input: ListWorkspace) -> Result<Reply, Problem> {
    let path = SharePath::parse(input.path.as_deref().unwrap_or_default())?;
    Reply::json(&open_workspace(&call).await?.list(&path).await?)
}

pub(crate) async fn read(call: Call, input: ReadWorkspaceFile) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let lines = LineRange {
        offset: input.offset.unwrap_or(0),
        limit: input.limit.unwrap_or(0),
    };
    let text = open_workspace(&call).await?.read(&path, lines).await?;
    Ok(Reply::json(&text)?.etag(text.etag))
}

pub(crate) async fn grep(call: Call, input: GrepWorkspace) -> Result<Reply, Problem> {
    let path = input.path.as_deref();
    let query = GrepQuery::parse(input.pattern, path, input.max, input.ignore_case)?;
    let permit = call.hub.files().searches.acquire(&call.principal().token)?;
    let found = match open_to_search(&call, query.path.as_ref()).await? {
        Some(workspace) => workspace.grep(query, permit.cancellation()).await?,
        None => query.search_nothing()?,
    };
    Reply::json(&found)
}

pub(crate) async fn find(call: Call, input: FindWorkspaceFiles) -> Result<Reply, Problem> {
    let query = FindQuery::parse(input.path.as_deref(), input.name, input.max)?;
    let permit = call.hub.files().searches.acquire(&call.principal().token)?;
    let found = match open_to_search(&call, query.path.as_ref()).await? {
        Some(workspace) => workspace.find(query, permit.cancellation()).await?,
        None => query.search_nothing()?,
    };
    Reply::json(&found)
}

pub(crate) async fn download(call: Call, input: DownloadFile) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    if input.format == Some(DownloadFormat::Archive) {
        return stream_archive(&call, &path).await;
    }
    let range = call.range.as_deref().and_then(ByteRange::parse);
    let download = open_workspace(&call).await?.download(&path, range).await?;
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment"),
    );
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_LENGTH, download.length.into());
    let is_part = range.is_some();
    if is_part {
        let last = (download.start + download.length).saturating_sub(1);
        let content_range = format!("bytes {}-{last}/{}", download.start, download.entry.size);
        headers.insert(
            header::CONTENT_RANGE,
            HeaderValue::try_from(content_range).map_err(|error| Problem::internal(&error))?,
        );
    }
    let body =
        axum::body::Body::from_stream(ReaderStream::new(download.file.take(download.length)));
    Ok(Reply {
        status: if is_part { 206 } else { 200 },
        etag: download.entry.etag,
        body: ReplyBody::Bytes(headers, body),
    })
}

async fn stream_archive(call: &Call, path: &SharePath) -> Result<Reply, Problem> {
    let permit = Arc::clone(&call.hub.files().archives)
        .try_acquire_owned()
        .map_err(|_| {
            Problem::new(
                ProblemCode::ResourceExhausted,
                "too many archives are being packed; try again in a moment",
            )
            .with_reason("concurrency")
            .with_retry_after(5000)
        })?;
    let pieces = open_workspace(call)
        .await?
        .archive(path, call.hub.tasks(), permit)
        .await?;
    let pieces = futures::stream::unfold(pieces, |mut pieces| async move {
        let piece = pieces.recv().await?;
        Some((piece, pieces))
    });
    let headers = HeaderMap::from_iter([
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/zstd"),
        ),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment; filename=\"workspace.tar.zst\""),
        ),
    ]);
    Ok(Reply {
        status: 200,
        etag: None,
        body: ReplyBody::Bytes(headers, axum::body::Body::from_stream(pieces)),
    })
}
