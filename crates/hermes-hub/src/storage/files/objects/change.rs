//! Writing, making, moving and removing: contents first, then one transaction that refers to them.

use bytes::{Bytes, BytesMut};

use super::{ObjectShare, etag, file_entry};
use crate::{
    Problem, ProblemCode,
    storage::{
        files::{
            CreateOutcome, FileEntry, IfMatch, RemoveMode, SharePath, TreeUsage, WriteMode,
            WrittenFile, problems, quota::check_room,
        },
        state::{BlobRef, IndexedContent, IndexedEntry, ShareIndexChange},
    },
};

/// What is appended to a last blob of less than this is joined with it, so that many small appends do not make many
/// small blobs.
const JOINED_BYTES: u64 = 1 << 20;
/// Other nodes may append to the same file.
const APPEND_ATTEMPTS: u32 = 100;

pub(super) type ShareChange = Box<dyn ShareIndexChange>;

impl ObjectShare {
    pub(super) async fn write(
        &self,
        path: &SharePath,
        content: Bytes,
        mode: WriteMode,
        condition: Option<&IfMatch>,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        let most = self.limits().write_bytes;
        if content.len() > most {
            return Err(problems::write_too_large(most, content.len()));
        }
        if path.is_root() {
            return Err(problems::is_a_directory(path));
        }
        let _path = self.lock_path(path).await;
        match mode {
            WriteMode::Overwrite => self.overwrite(path, content, condition).await,
            WriteMode::Append => self.append(path, content, condition).await,
        }
    }

    async fn overwrite(
        &self,
        path: &SharePath,
        content: Bytes,
        condition: Option<&IfMatch>,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        // Refused before its content is sent, where that is known.
        let before = self.index.indexed_entry(&self.group, path.as_str()).await?;
        check_writable(before.as_ref(), path, condition)?;
        let length = content.len() as u64;
        let mut parts = Vec::new();
        if !content.is_empty() {
            parts.push(self.blobs.put(content).await?);
        }
        let mut change = self.index.begin_share_change(&self.group).await?;
        let before = change.entry(path.as_str()).await?;
        check_writable(before.as_ref(), path, condition)?;
        let written = self.put_file(&mut change, path, before, parts).await?;
        change.commit().await?;
        Ok(outcome(written, length))
    }

    async fn append(
        &self,
        path: &SharePath,
        content: Bytes,
        condition: Option<&IfMatch>,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        for _ in 0..APPEND_ATTEMPTS {
            let before = self.index.indexed_entry(&self.group, path.as_str()).await?;
            check_writable(before.as_ref(), path, condition)?;
            let parts = self
                .appended_parts(before.as_ref(), content.clone())
                .await?;
            let mut change = self.index.begin_share_change(&self.group).await?;
            let now = change.entry(path.as_str()).await?;
            let version = |entry: &Option<IndexedEntry>| entry.as_ref().map(|entry| entry.version);
            if version(&now) != version(&before) {
                // Another node was faster.
                continue;
            }
            let written = self.put_file(&mut change, path, now, parts).await?;
            change.commit().await?;
            return Ok(outcome(written, content.len() as u64));
        }
        Err(Problem::new(
            ProblemCode::Unavailable,
            format!("`{path}` is changed by others all the time: try again"),
        )
        .with_retry_after(1000))
    }

    /// The blobs of a file with more at its end.
    async fn appended_parts(
        &self,
        before: Option<&IndexedEntry>,
        content: Bytes,
    ) -> Result<Vec<BlobRef>, Problem> {
        let mut parts = match before.map(|entry| &entry.content) {
            Some(IndexedContent::File(parts)) => parts.clone(),
            _ => Vec::new(),
        };
        if content.is_empty() {
            return Ok(parts);
        }
        let last = parts.pop_if(|last| last.size < JOINED_BYTES);
        let content = match last {
            Some(last) => {
                let mut joined = BytesMut::from(&self.blobs.read(&last).await?[..]);
                joined.extend_from_slice(&content);
                joined.freeze()
            }
            None => content,
        };
        parts.push(self.blobs.put(content).await?);
        Ok(parts)
    }

    /// Writes a file with its missing parents, if the quota has room for them.
    async fn put_file(
        &self,
        change: &mut ShareChange,
        path: &SharePath,
        before: Option<IndexedEntry>,
        parts: Vec<BlobRef>,
    ) -> Result<(CreateOutcome, IndexedEntry), Problem> {
        let missing = match &before {
            Some(_) => Vec::new(),
            None => missing_directories(change, path.split().map(|(parent, _)| parent)).await?,
        };
        let content = IndexedContent::File(parts);
        let old_size = before.as_ref().map_or(0, |entry| entry.content.size());
        let need = TreeUsage {
            bytes: content.size().saturating_sub(old_size),
            files: missing.len() as u64 + u64::from(before.is_none()),
        };
        self.check_quota(change, need)?;
        make_directories(change, &missing).await?;
        let written = change.put(path.as_str(), &content).await?;
        Ok(match before {
            None => (CreateOutcome::Created, written),
            Some(_) => (CreateOutcome::Replaced, written),
        })
    }

    pub(super) async fn make_dir(
        &self,
        path: &SharePath,
    ) -> Result<(CreateOutcome, FileEntry), Problem> {
        let mut change = self.index.begin_share_change(&self.group).await?;
        let missing = missing_directories(&mut change, Some(path.clone())).await?;
        let need = TreeUsage {
            bytes: 0,
            files: missing.len() as u64,
        };
        self.check_quota(&change, need)?;
        make_directories(&mut change, &missing).await?;
        let made = change.entry(path.as_str()).await?;
        let made = made.ok_or_else(|| problems::path_not_found(path))?;
        change.commit().await?;
        let placed = if missing.is_empty() {
            CreateOutcome::Replaced
        } else {
            CreateOutcome::Created
        };
        Ok((placed, file_entry(&made)))
    }

    pub(super) async fn relocate(
        &self,
        from: &SharePath,
        to: &SharePath,
        condition: Option<&IfMatch>,
    ) -> Result<FileEntry, Problem> {
        let (Some(_), Some((target, _))) = (from.split(), to.split()) else {
            return Err(problems::root_not_moved());
        };
        if to.is_within(from) && to != from {
            return Err(problems::moved_into_itself(from));
        }
        let mut change = self.index.begin_share_change(&self.group).await?;
        let entry = change.entry(from.as_str()).await?;
        let entry = entry.ok_or_else(|| problems::path_not_found(from))?;
        if let Some(condition) = condition {
            condition.check(etag(&entry).as_deref())?;
        }
        if change.entry(to.as_str()).await?.is_some() {
            return Err(problems::already_exists(to));
        }
        let missing = missing_directories(&mut change, Some(target)).await?;
        let need = TreeUsage {
            bytes: 0,
            files: missing.len() as u64,
        };
        self.check_quota(&change, need)?;
        make_directories(&mut change, &missing).await?;
        let moved = change.rename(from.as_str(), to.as_str()).await?;
        change.commit().await?;
        Ok(file_entry(&moved))
    }

    pub(super) async fn remove(
        &self,
        path: &SharePath,
        removal: RemoveMode,
        condition: Option<&IfMatch>,
    ) -> Result<(), Problem> {
        if path.is_root() {
            return Err(problems::root_not_removed());
        }
        let mut change = self.index.begin_share_change(&self.group).await?;
        let entry = change.entry(path.as_str()).await?;
        let entry = entry.ok_or_else(|| problems::path_not_found(path))?;
        if let Some(condition) = condition {
            condition.check(etag(&entry).as_deref())?;
        }
        if entry.content.is_dir() && removal == RemoveMode::Single {
            let entries = change.count_in(path.as_str()).await?;
            if entries > 0 {
                return Err(problems::not_empty(path, entries));
            }
        }
        change.trash(path.as_str()).await?;
        Ok(change.commit().await?)
    }

    pub(super) fn check_quota(&self, change: &ShareChange, need: TreeUsage) -> Result<(), Problem> {
        let used = change.usage();
        let used = TreeUsage {
            bytes: used.bytes,
            files: used.files,
        };
        check_room(used, need, self.limits().quota)
    }
}

fn check_writable(
    before: Option<&IndexedEntry>,
    path: &SharePath,
    condition: Option<&IfMatch>,
) -> Result<(), Problem> {
    if before.is_some_and(|entry| entry.content.is_dir()) {
        return Err(problems::is_a_directory(path));
    }
    match condition {
        Some(condition) => condition.check(before.and_then(etag).as_deref()),
        None => Ok(()),
    }
}

/// Directories that have to be made for this one to exist, the outermost first.
pub(super) async fn missing_directories(
    change: &mut ShareChange,
    directory: Option<SharePath>,
) -> Result<Vec<SharePath>, Problem> {
    let mut missing = Vec::new();
    let mut next = directory;
    while let Some(path) = next.filter(|path| !path.is_root()) {
        match change.entry(path.as_str()).await? {
            Some(entry) if entry.content.is_dir() => break,
            Some(_) => {
                return Err(Problem::precondition(format!(
                    "a part of `{path}` is not a directory: name another path"
                ))
                .with_reason("not_a_directory"));
            }
            None => {}
        }
        next = path.split().map(|(parent, _)| parent);
        missing.push(path);
    }
    missing.reverse();
    Ok(missing)
}

pub(super) async fn make_directories(
    change: &mut ShareChange,
    missing: &[SharePath],
) -> Result<(), Problem> {
    for directory in missing {
        change
            .put(directory.as_str(), &IndexedContent::Directory)
            .await?;
    }
    Ok(())
}

fn outcome(
    (placed, entry): (CreateOutcome, IndexedEntry),
    bytes_written: u64,
) -> (CreateOutcome, WrittenFile) {
    let entry = file_entry(&entry);
    (
        placed,
        WrittenFile {
            entry,
            bytes_written,
        },
    )
}
