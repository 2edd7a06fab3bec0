//! Changes of a tenant's workspace, with the rules of shares. The agent works there at the same time.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{directory_problem, recorded_with};
use crate::{
    Problem, TenantId,
    hub::HomeChange,
    service::{
        call::{Call, Reply},
        shares::{WriteModeInput, created_status, entry_reply, parse_if_match},
    },
    storage::{
        files::{DirectoryFiles, Files, RemoveMode, SharePath, UnpackedArchive, WriteMode},
        state::{FileChange, TenantRecord},
    },
};

const WORKSPACE: &str = "workspace";

/// A file to write to a workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteWorkspaceFile {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The file, relative to the workspace; missing directories are created.
    path: String,
    /// Its text.
    content: Option<String>,
    /// Its bytes in base64, instead of a text. Over REST, the bytes can be the body.
    content_base64: Option<String>,
    /// `overwrite` if absent.
    mode: Option<WriteModeInput>,
}

/// A directory to make in a workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeWorkspaceDirectory {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The directory, relative to the workspace; missing parents are created.
    path: String,
}

/// A path of a workspace to move.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveWorkspacePath {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The present path.
    from: String,
    /// The new path, which must not exist.
    to: String,
}

/// A path of a workspace to remove.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveWorkspacePath {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The path, relative to the workspace.
    path: String,
    /// Required for directories that are not empty.
    recursive: Option<bool>,
}

/// An archive to unpack in a workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UploadArchive {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The directory to unpack it in; the root of the workspace if absent.
    path: Option<String>,
    /// A `tar` or `tar.zst` in base64. Over REST, it can be the body itself.
    archive: String,
}

pub(crate) async fn write(call: Call, input: WriteWorkspaceFile) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let condition = parse_if_match(&call)?;
    let content = file_content(input.content, input.content_base64.as_deref())?;
    let mode = match input.mode {
        Some(WriteModeInput::Append) => WriteMode::Append,
        Some(WriteModeInput::Overwrite) | None => WriteMode::Overwrite,
    };
    let (placed, written) = change_workspace(&call, call.tenant()?, |files| async move {
        files.write(&path, content, mode, condition).await
    })
    .await?;
    let mut reply = Reply::json(&written)?.status(created_status(placed));
    reply.etag.clone_from(&written.entry.etag);
    Ok(reply)
}

pub(crate) async fn make_directory(
    call: Call,
    input: MakeWorkspaceDirectory,
) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let (placed, entry) = change_workspace(&call, call.tenant()?, |files| async move {
        files.make_dir(&path).await
    })
    .await?;
    Ok(entry_reply(&entry)?.status(created_status(placed)))
}

pub(crate) async fn move_path(call: Call, input: MoveWorkspacePath) -> Result<Reply, Problem> {
    let (from, to) = (SharePath::parse(&input.from)?, SharePath::parse(&input.to)?);
    let condition = parse_if_match(&call)?;
    let entry = change_present(&call, call.tenant()?, |files| async move {
        files.relocate(&from, &to, condition).await
    })
    .await?;
    entry_reply(&entry)
}

pub(crate) async fn remove(call: Call, input: RemoveWorkspacePath) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let condition = parse_if_match(&call)?;
    let removal = if input.recursive == Some(true) {
        RemoveMode::Recursive
    } else {
        RemoveMode::Single
    };
    change_present(&call, call.tenant()?, |files| async move {
        files.remove(&path, removal, condition).await
    })
    .await?;
    Ok(Reply::empty())
}

pub(crate) async fn upload(call: Call, input: UploadArchive) -> Result<Reply, Problem> {
    let path = SharePath::parse(input.path.as_deref().unwrap_or_default())?;
    let archive = decode_base64("archive", &input.archive)?;
    let unpacked: UnpackedArchive = change_workspace(&call, call.tenant()?, |files| async move {
        files.unpack(&path, archive).await
    })
    .await?;
    Reply::json(&unpacked)
}

/// The bytes of a file that was sent as text or in base64.
pub(crate) fn file_content(text: Option<String>, base64: Option<&str>) -> Result<Bytes, Problem> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into()),
        (None, Some(base64)) => decode_base64("contentBase64", base64),
        _ => Err(
            Problem::invalid("a file needs either `content` or `contentBase64`")
                .with_detail("content", "required"),
        ),
    }
}

pub(crate) fn decode_base64(name: &'static str, text: &str) -> Result<Bytes, Problem> {
    let decoded = BASE64_STANDARD.decode(text);
    decoded.map(Bytes::from).map_err(|_| {
        Problem::invalid(format!("`{name}` is not base64")).with_detail(name, "not base64")
    })
}

/// Changes the workspace, which is made if it is missing.
pub(crate) async fn change_workspace<T, F>(
    call: &Call,
    record: &TenantRecord,
    work: impl FnOnce(DirectoryFiles) -> F,
) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Problem>>,
{
    let change: HomeChange = call.hub.begin_home_change(record).await?;
    let files = change.open_or_create(WORKSPACE);
    change_files(call, record, &change, files, work).await
}

/// Changes what is in the workspace already.
async fn change_present<T, F>(
    call: &Call,
    record: &TenantRecord,
    work: impl FnOnce(DirectoryFiles) -> F,
) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Problem>>,
{
    let change: HomeChange = call.hub.begin_home_change(record).await?;
    let files = change.open(WORKSPACE);
    change_files(call, record, &change, files, work).await
}

/// Changes files, recorded together with how much the home takes then.
async fn change_files<T, F>(
    call: &Call,
    record: &TenantRecord,
    change: &HomeChange,
    files: std::io::Result<DirectoryFiles>,
    work: impl FnOnce(DirectoryFiles) -> F,
) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Problem>>,
{
    let files = files.map_err(|error| directory_problem(&error, WORKSPACE))?;
    let measure = async {
        match files.usage().await {
            Ok(used) => change.usage_record(used),
            Err(_) => None,
        }
    };
    let intent = FileChange::HomeFiles {
        tenant: record.id.clone(),
        directory: WORKSPACE.to_owned(),
    };
    recorded_with(call, intent, work(files.clone()), measure).await
}
