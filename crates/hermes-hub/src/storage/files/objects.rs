//! Files of a share in object storage: paths are rows of the database, contents are blobs that never change. Any node
//! may change them at the same time: a change is one transaction under the lock of the share.

mod blob_cache;
mod blobs;
mod change;
mod parts_reader;
mod search;
mod trash;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use hermes_config::sync::{RwLock, stripe_index};
use tokio_util::sync::CancellationToken;

use super::{
    CreateOutcome, EntryType, FileEntry, FileLimits, FileText, Files, FindQuery, FindResult,
    GrepQuery, GrepResult, IfMatch, LineRange, Listing, RemoveMode, SharePath, TrashedEntry,
    TreeUsage, WriteMode, WrittenFile, directory::run_blocking, problems, text,
};
use crate::{
    GroupId, Problem,
    storage::state::{BlobRef, IndexedContent, IndexedEntry, ShareIndexStore},
};

pub use blobs::BlobStore;
use parts_reader::PartsReader;

/// Changes of one path by this node wait for each other here, and not in the database.
const PATH_LOCKS: usize = 64;

#[derive(Clone)]
pub struct ObjectFiles(Arc<ObjectShare>);

struct ObjectShare {
    group: GroupId,
    index: Arc<dyn ShareIndexStore>,
    blobs: Arc<BlobStore>,
    limits: RwLock<FileLimits>,
    path_locks: [tokio::sync::Mutex<()>; PATH_LOCKS],
}

impl ObjectFiles {
    pub fn open(
        group: GroupId,
        index: Arc<dyn ShareIndexStore>,
        blobs: Arc<BlobStore>,
        limits: FileLimits,
    ) -> Self {
        Self(Arc::new(ObjectShare {
            group,
            index,
            blobs,
            limits: RwLock::new(limits),
            path_locks: std::array::from_fn(|_| tokio::sync::Mutex::new(())),
        }))
    }
}

impl ObjectShare {
    fn limits(&self) -> FileLimits {
        *self.limits.read()
    }

    async fn lock_path(&self, path: &SharePath) -> tokio::sync::MutexGuard<'_, ()> {
        self.path_locks[stripe_index(path, PATH_LOCKS)].lock().await
    }

    async fn find(&self, path: &SharePath) -> Result<IndexedEntry, Problem> {
        let found = self.index.indexed_entry(&self.group, path.as_str()).await?;
        found.ok_or_else(|| problems::path_not_found(path))
    }

    /// Whether a path is the root or another directory; refuses a file.
    async fn expect_directory(&self, path: &SharePath) -> Result<(), Problem> {
        if path.is_root() || self.find(path).await?.content.is_dir() {
            return Ok(());
        }
        Err(problems::not_a_directory(path))
    }

    /// The parts of a file; refuses a directory.
    async fn find_file(&self, path: &SharePath) -> Result<(IndexedEntry, Vec<BlobRef>), Problem> {
        if path.is_root() {
            return Err(problems::is_a_directory(path));
        }
        let entry = self.find(path).await?;
        match &entry.content {
            IndexedContent::Directory => Err(problems::is_a_directory(path)),
            IndexedContent::File(parts) => {
                let parts = parts.clone();
                Ok((entry, parts))
            }
        }
    }
}

fn etag(entry: &IndexedEntry) -> Option<String> {
    (!entry.content.is_dir()).then(|| format!("\"v{:x}\"", entry.version))
}

fn file_entry(entry: &IndexedEntry) -> FileEntry {
    FileEntry {
        name: entry.path.rsplit('/').next().unwrap_or_default().to_owned(),
        path: entry.path.clone(),
        entry_type: if entry.content.is_dir() {
            EntryType::Dir
        } else {
            EntryType::File
        },
        size: entry.content.size(),
        modified_at: entry.modified_at.to_string(),
        etag: etag(entry),
    }
}

#[async_trait]
impl Files for ObjectFiles {
    async fn list(&self, path: &SharePath) -> Result<Listing, Problem> {
        let share = &self.0;
        share.expect_directory(path).await?;
        let most = share.limits().list_entries;
        let mut entries = share
            .index
            .entries_in(&share.group, path.as_str(), most.saturating_add(1))
            .await?;
        let truncated = entries.len() > most;
        entries.truncate(most);
        Ok(Listing {
            path: path.as_str().to_owned(),
            entries: entries.iter().map(file_entry).collect(),
            truncated,
        })
    }

    async fn read(&self, path: &SharePath, lines: LineRange) -> Result<FileText, Problem> {
        let share = &self.0;
        let (entry, parts) = share.find_file(path).await?;
        let (reader, feed) = PartsReader::open(Arc::clone(&share.blobs), parts);
        let (path, most) = (path.clone(), share.limits().read_bytes);
        let read = run_blocking(move || {
            let version = text::FileVersionRead {
                path: &path,
                size: entry.content.size(),
                etag: etag(&entry).unwrap_or_default(),
            };
            text::read_text(reader, version, lines, most)
        });
        let (outcome, text) = tokio::join!(feed, read);
        outcome?;
        text
    }

    async fn read_part(
        &self,
        path: &SharePath,
        start: u64,
        most: usize,
    ) -> Result<(FileEntry, Bytes), Problem> {
        self.0.read_part(path, start, most).await
    }

    async fn list_trash(&self) -> Result<Vec<TrashedEntry>, Problem> {
        self.0.list_trash().await
    }

    async fn restore(&self, id: &str) -> Result<FileEntry, Problem> {
        self.0.restore(id).await
    }

    async fn stat(&self, path: &SharePath) -> Result<FileEntry, Problem> {
        let share = &self.0;
        if path.is_root() {
            let usage = share.index.share_usage(&share.group).await?;
            return Ok(FileEntry {
                name: String::new(),
                path: String::new(),
                entry_type: EntryType::Dir,
                size: 0,
                modified_at: usage.changed_at.to_string(),
                etag: None,
            });
        }
        Ok(file_entry(&share.find(path).await?))
    }

    async fn grep(
        &self,
        search: GrepQuery,
        cancel: CancellationToken,
    ) -> Result<GrepResult, Problem> {
        // The search is cancelled when the caller goes away.
        let cancel = cancel.child_token();
        let _guard = cancel.clone().drop_guard();
        self.0.grep(search, cancel).await
    }

    async fn find(
        &self,
        find: FindQuery,
        cancel: CancellationToken,
    ) -> Result<FindResult, Problem> {
        self.0.find_paths(find, cancel).await
    }

    async fn write(
        &self,
        path: &SharePath,
        content: Bytes,
        mode: WriteMode,
        condition: Option<IfMatch>,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        self.0.write(path, content, mode, condition.as_ref()).await
    }

    async fn make_dir(&self, path: &SharePath) -> Result<(CreateOutcome, FileEntry), Problem> {
        if path.is_root() {
            return Ok((CreateOutcome::Replaced, self.stat(path).await?));
        }
        self.0.make_dir(path).await
    }

    async fn relocate(
        &self,
        from: &SharePath,
        to: &SharePath,
        condition: Option<IfMatch>,
    ) -> Result<FileEntry, Problem> {
        self.0.relocate(from, to, condition.as_ref()).await
    }

    async fn remove(
        &self,
        path: &SharePath,
        removal: RemoveMode,
        condition: Option<IfMatch>,
    ) -> Result<(), Problem> {
        self.0.remove(path, removal, condition.as_ref()).await
    }

    async fn usage(&self) -> Result<TreeUsage, Problem> {
        let usage = self.0.index.share_usage(&self.0.group).await?;
        Ok(TreeUsage {
            bytes: usage.bytes,
            files: usage.files,
        })
    }

    async fn clear_interrupted(&self, _: &SharePath) -> Result<(), Problem> {
        Ok(())
    }

    fn set_limits(&self, limits: FileLimits) {
        *self.0.limits.write() = limits;
    }
}
