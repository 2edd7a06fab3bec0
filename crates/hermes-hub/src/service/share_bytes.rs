//! Files of shares as they are, and what was removed from a share.

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::{
    shares::{WriteModeInput, created_status, entry_reply, parse_if_match, run_share_change},
    workspace::decode_base64,
};
use crate::{
    GroupId, Problem, TenantId,
    service::call::{Call, Reply, ReplyBody},
    storage::files::{ByteRange, Files, SharePath, TrashedEntry, WriteMode},
};

/// How much of a file is in memory at once.
const PIECE_BYTES: usize = 256 * 1024;

/// A file of a share, as it is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DownloadShareFile {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The group whose share it is.
    group_id: GroupId,
    /// The file.
    path: String,
}

/// A file of any kind to write to a share.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UploadShareFile {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The group whose share it is.
    group_id: GroupId,
    /// The file; missing directories are created.
    path: String,
    /// Its bytes in base64. Over REST, the bytes can be the body.
    content_base64: String,
    /// `overwrite` if absent.
    mode: Option<WriteModeInput>,
}

/// A share.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShareRef {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The group whose share it is.
    group_id: GroupId,
}

/// Something in the trash of a share.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreSharePath {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The group whose share it is.
    group_id: GroupId,
    /// Its id in the trash.
    id: String,
}

/// What was removed from a share, the newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShareTrash {
    entries: Vec<TrashedEntry>,
}

pub(crate) async fn download(call: Call, input: DownloadShareFile) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let files = call.hub.open_share(&input.group_id).await?;
    let range = call.range.as_deref().and_then(ByteRange::parse);
    let (entry, _) = files.read_part(&path, 0, 0).await?;
    let (start, length) = match range {
        None => (0, entry.size),
        Some(range) => range.resolve(entry.size).ok_or_else(|| {
            Problem::invalid(format!(
                "`{path}` has {} bytes; the range lies outside",
                entry.size
            ))
            .with_reason("range")
            .with_detail("Range", "outside of the file")
        })?,
    };
    let mut headers = HeaderMap::new();
    let fixed = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::ACCEPT_RANGES, "bytes"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_LENGTH, length.into());
    if range.is_some() {
        let last = (start + length).saturating_sub(1);
        let content_range = format!("bytes {start}-{last}/{}", entry.size);
        let content_range = HeaderValue::try_from(content_range);
        headers.insert(
            header::CONTENT_RANGE,
            content_range.map_err(|error| Problem::internal(&error))?,
        );
    }
    let rest = RestOfFile {
        files,
        path,
        version: entry.etag.clone(),
        at: start,
        left: length,
    };
    let pieces = stream::try_unfold(rest, RestOfFile::next_piece);
    Ok(Reply {
        status: if range.is_some() { 206 } else { 200 },
        etag: entry.etag,
        body: ReplyBody::Bytes(headers, Body::from_stream(pieces)),
    })
}

/// What is still to be sent of a file.
struct RestOfFile {
    files: Arc<dyn Files>,
    path: SharePath,
    version: Option<String>,
    at: u64,
    left: u64,
}

impl RestOfFile {
    async fn next_piece(mut self) -> Result<Option<(Bytes, Self)>, Problem> {
        let most = usize::try_from(self.left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        if most == 0 {
            return Ok(None);
        }
        let (entry, piece) = self.files.read_part(&self.path, self.at, most).await?;
        if entry.etag != self.version || piece.is_empty() {
            // Pieces of two versions are not a file: the connection is cut.
            return Err(Problem::precondition(
                "the file was changed while it was sent",
            ));
        }
        self.at += piece.len() as u64;
        self.left = self.left.saturating_sub(piece.len() as u64);
        Ok(Some((piece, self)))
    }
}

pub(crate) async fn upload(call: Call, input: UploadShareFile) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let condition = parse_if_match(&call)?;
    let content = decode_base64("contentBase64", &input.content_base64)?;
    let mode = match input.mode {
        Some(WriteModeInput::Append) => WriteMode::Append,
        Some(WriteModeInput::Overwrite) | None => WriteMode::Overwrite,
    };
    let files = call.hub.open_share(&input.group_id).await?;
    let work = files.write(&path, content, mode, condition);
    let (placed, written) = run_share_change(&call, &input.group_id, &path, &*files, work).await?;
    let mut reply = Reply::json(&written)?.status(created_status(placed));
    reply.etag.clone_from(&written.entry.etag);
    Ok(reply)
}

pub(crate) async fn list_trash(call: Call, input: ShareRef) -> Result<Reply, Problem> {
    let files = call.hub.open_share(&input.group_id).await?;
    Reply::json(&ShareTrash {
        entries: files.list_trash().await?,
    })
}

pub(crate) async fn restore(call: Call, input: RestoreSharePath) -> Result<Reply, Problem> {
    let files = call.hub.open_share(&input.group_id).await?;
    let work = files.restore(&input.id);
    let root = SharePath::root();
    let entry = run_share_change(&call, &input.group_id, &root, &*files, work).await?;
    entry_reply(&entry)
}
