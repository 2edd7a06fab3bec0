//! The shares of a tenant's groups, with the rights of its own agent.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{TenantRef, recorded_with};
use crate::{
    GroupId, Problem, TenantId,
    api_types::ShareList,
    service::call::{Call, Reply},
    storage::{
        files::{
            CreateOutcome, FileEntry, Files, FindQuery, GrepQuery, IfMatch, LineRange, RemoveMode,
            SharePath, TreeUsage, WriteMode,
        },
        state::{FileChange, StorageUsage, UsageOwner},
    },
};

macro_rules! share_input {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            /// The tenant's id.
            #[expect(dead_code, reason = "the gate has found the tenant")]
            tenant_id: TenantId,
            /// The group whose share it is.
            group_id: GroupId,
            $($(#[$field_doc])* $field: $kind,)*
        }
    };
}

share_input! {
    /// A directory of a share.
    ListFiles {
        /// Relative to the share; its root if absent or empty.
        path: Option<String>,
    }
}
share_input! {
    /// Lines of a file.
    ReadFile {
        /// The file.
        path: String,
        /// The first line, from 0.
        offset: Option<u64>,
        /// How many lines; 0 or absent means all that the Hub allows.
        limit: Option<u64>,
    }
}
share_input! {
    /// A path of a share.
    PathRef {
        /// The path, relative to the share.
        path: String,
    }
}
share_input! {
    /// A search.
    Grep {
        /// A regular expression in Go's syntax, matched line by line.
        pattern: String,
        /// A directory or a file; the whole share if absent.
        path: Option<String>,
        /// How many matches at most, 1 to 1000; 100 if absent.
        max: Option<u64>,
        /// Whether to ignore case.
        ignore_case: Option<bool>,
    }
}
share_input! {
    /// A search for names.
    FindFiles {
        /// The directory to search; the root if absent.
        path: Option<String>,
        /// A pattern with `*`, `?` and `[a-z]`; with `/` it is matched against the whole path. All files if absent.
        name: Option<String>,
        /// How many at most, 1 to 1000; 100 if absent.
        max: Option<u64>,
    }
}

/// How content is written to an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WriteModeInput {
    /// Replaces the content.
    Overwrite,
    /// Is appended to the content.
    Append,
}

share_input! {
    /// A file to write.
    WriteFile {
        /// The file; missing directories are created.
        path: String,
        /// Its text.
        content: String,
        /// `overwrite` if absent.
        mode: Option<WriteModeInput>,
    }
}
share_input! {
    /// A path to move.
    Move {
        /// The present path.
        from: String,
        /// The new path, which must not exist.
        to: String,
    }
}
share_input! {
    /// A path to remove.
    Remove {
        /// The path, relative to the share.
        path: String,
        /// Required for directories that are not empty.
        recursive: Option<bool>,
    }
}

pub(crate) async fn list(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    let shares = call.hub.state().shares(call.tenant_id()?).await?;
    Reply::json(&ShareList { shares })
}

pub(crate) async fn list_files(call: Call, input: ListFiles) -> Result<Reply, Problem> {
    let path = SharePath::parse(input.path.as_deref().unwrap_or_default())?;
    Reply::json(
        &call
            .hub
            .open_share(&input.group_id)
            .await?
            .list(&path)
            .await?,
    )
}

pub(crate) async fn read(call: Call, input: ReadFile) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let lines = LineRange {
        offset: input.offset.unwrap_or(0),
        limit: input.limit.unwrap_or(0),
    };
    let text = call
        .hub
        .open_share(&input.group_id)
        .await?
        .read(&path, lines)
        .await?;
    Ok(Reply::json(&text)?.etag(text.etag))
}

pub(crate) async fn stat(call: Call, input: PathRef) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let entry = call
        .hub
        .open_share(&input.group_id)
        .await?
        .stat(&path)
        .await?;
    entry_reply(&entry)
}

pub(crate) fn entry_reply(entry: &FileEntry) -> Result<Reply, Problem> {
    let mut reply = Reply::json(entry)?;
    reply.etag.clone_from(&entry.etag);
    Ok(reply)
}

pub(crate) async fn grep(call: Call, input: Grep) -> Result<Reply, Problem> {
    let path = input.path.as_deref();
    let search = GrepQuery::parse(input.pattern, path, input.max, input.ignore_case)?;
    let permit = call.hub.files().searches.acquire(&call.principal().token)?;
    let files = call.hub.open_share(&input.group_id).await?;
    Reply::json(&files.grep(search, permit.cancellation()).await?)
}

pub(crate) async fn find(call: Call, input: FindFiles) -> Result<Reply, Problem> {
    let find = FindQuery::parse(input.path.as_deref(), input.name, input.max)?;
    let permit = call.hub.files().searches.acquire(&call.principal().token)?;
    let files = call.hub.open_share(&input.group_id).await?;
    Reply::json(&files.find(find, permit.cancellation()).await?)
}

pub(crate) async fn write(call: Call, input: WriteFile) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let condition = parse_if_match(&call)?;
    let mode = match input.mode {
        Some(WriteModeInput::Append) => WriteMode::Append,
        Some(WriteModeInput::Overwrite) | None => WriteMode::Overwrite,
    };
    let files = call.hub.open_share(&input.group_id).await?;
    let content = Bytes::from(input.content);
    let work = files.write(&path, content, mode, condition);
    let (placed, written) = run_share_change(&call, &input.group_id, &path, &*files, work).await?;
    let mut reply = Reply::json(&written)?.status(created_status(placed));
    reply.etag.clone_from(&written.entry.etag);
    Ok(reply)
}

pub(crate) async fn make_dir(call: Call, input: PathRef) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let files = call.hub.open_share(&input.group_id).await?;
    let (placed, entry) = run_share_change(
        &call,
        &input.group_id,
        &path,
        &*files,
        files.make_dir(&path),
    )
    .await?;
    Ok(entry_reply(&entry)?.status(created_status(placed)))
}

pub(crate) async fn move_path(call: Call, input: Move) -> Result<Reply, Problem> {
    let (from, to) = (SharePath::parse(&input.from)?, SharePath::parse(&input.to)?);
    let condition = parse_if_match(&call)?;
    let files = call.hub.open_share(&input.group_id).await?;
    let entry = run_share_change(
        &call,
        &input.group_id,
        &to,
        &*files,
        files.relocate(&from, &to, condition),
    )
    .await?;
    entry_reply(&entry)
}

pub(crate) async fn remove(call: Call, input: Remove) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let condition = parse_if_match(&call)?;
    let removal = if input.recursive == Some(true) {
        RemoveMode::Recursive
    } else {
        RemoveMode::Single
    };
    let files = call.hub.open_share(&input.group_id).await?;
    run_share_change(
        &call,
        &input.group_id,
        &path,
        &*files,
        files.remove(&path, removal, condition),
    )
    .await?;
    Ok(Reply::empty())
}

pub(crate) fn parse_if_match(call: &Call) -> Result<Option<IfMatch>, Problem> {
    call.if_match.as_deref().map(IfMatch::parse).transpose()
}

pub(crate) fn created_status(placed: CreateOutcome) -> u16 {
    match placed {
        CreateOutcome::Created => 201,
        CreateOutcome::Replaced => 200,
    }
}

/// Changes a share, recorded together with how much it holds then.
pub(crate) async fn run_share_change<T>(
    call: &Call,
    group: &GroupId,
    path: &SharePath,
    files: &dyn Files,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let measure = async {
        match files.usage().await {
            Ok(TreeUsage { bytes, files }) => Some((
                UsageOwner::Group(group.clone()),
                StorageUsage { bytes, files },
            )),
            // The next change counts again.
            Err(problem) => {
                tracing::warn!(%group, %problem, "failed to measure a share");
                None
            }
        }
    };
    let change = FileChange::Share {
        group: group.clone(),
        path: path.as_str().to_owned(),
    };
    recorded_with(call, change, work, measure).await
}
