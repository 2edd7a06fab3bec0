//! Where the files of shares are, when their contents are in object storage: paths, and the blobs they consist of.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::StateError;
use crate::{GroupId, api_types::Time};

/// A blob: its name and size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BlobRef {
    /// The SHA-256 of its content in hexadecimal, a dot, and a number.
    pub name: String,
    pub size: u64,
}

impl BlobRef {
    pub fn hash(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexedContent {
    Directory,
    /// Blobs, one after the other.
    File(Vec<BlobRef>),
}

impl IndexedContent {
    pub fn is_dir(&self) -> bool {
        matches!(self, Self::Directory)
    }

    pub fn size(&self) -> u64 {
        match self {
            Self::Directory => 0,
            Self::File(parts) => parts.iter().map(|part| part.size).sum(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedEntry {
    pub path: String,
    pub content: IndexedContent,
    /// Another one after each write.
    pub version: u64,
    pub modified_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexedUsage {
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
    pub changed_at: Timestamp,
}

/// What one removal took away: a path with everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedEntry {
    /// The number of the removal in its share.
    pub removal: i64,
    pub path: String,
    pub is_dir: bool,
    pub bytes: u64,
    /// Files and directories, with itself.
    pub files: u64,
    pub removed_at: Timestamp,
}

/// The index of all shares.
#[async_trait]
pub trait ShareIndexStore: Send + Sync + 'static {
    async fn indexed_entry(
        &self,
        group: &GroupId,
        path: &str,
    ) -> Result<Option<IndexedEntry>, StateError>;

    /// One level: directories first, in byte order.
    async fn entries_in(
        &self,
        group: &GroupId,
        directory: &str,
        most: usize,
    ) -> Result<Vec<IndexedEntry>, StateError>;

    /// Everything below a directory, in byte order of the paths, after one of them.
    async fn entries_below(
        &self,
        group: &GroupId,
        directory: &str,
        after: &str,
        most: usize,
    ) -> Result<Vec<IndexedEntry>, StateError>;

    async fn share_usage(&self, group: &GroupId) -> Result<IndexedUsage, StateError>;

    /// Begins a change of a share. Another one of the same share waits until it ends.
    async fn begin_share_change(
        &self,
        group: &GroupId,
    ) -> Result<Box<dyn ShareIndexChange>, StateError>;

    /// Says that blobs with these hashes are about to be written and referred to. Returns their names.
    async fn touch_blobs(&self, hashes: &[String]) -> Result<Vec<String>, StateError>;

    /// Moves all files of a deleted group to the trash.
    async fn trash_share(&self, group: &GroupId) -> Result<(), StateError>;

    /// What was removed from a share, the newest first.
    async fn removed_entries(
        &self,
        group: &GroupId,
        most: usize,
    ) -> Result<Vec<RemovedEntry>, StateError>;

    /// Forgets what was removed before this time.
    async fn empty_share_trash(&self, before: Time) -> Result<u64, StateError>;

    /// Condemns blobs that nothing refers to and nobody has touched for so long: nobody can refer to them any more.
    async fn condemn_blobs(&self, unused_for: Duration, most: usize) -> Result<u64, StateError>;

    /// Names of condemned blobs.
    async fn condemned_blobs(&self, most: usize) -> Result<Vec<String>, StateError>;

    /// Forgets condemned blobs, after their objects were deleted.
    async fn forget_condemned(&self, names: &[String]) -> Result<(), StateError>;

    /// All groups that have files.
    async fn indexed_groups(&self) -> Result<Vec<GroupId>, StateError>;
}

/// A change of one share. Dropped without [`Self::commit`], it never was.
#[async_trait]
pub trait ShareIndexChange: Send {
    /// As this change leaves it.
    fn usage(&self) -> IndexedUsage;

    async fn entry(&mut self, path: &str) -> Result<Option<IndexedEntry>, StateError>;

    /// The number of entries in a directory, not below it.
    async fn count_in(&mut self, directory: &str) -> Result<u64, StateError>;

    /// Writes what is at a path, under a new version.
    async fn put(
        &mut self,
        path: &str,
        content: &IndexedContent,
    ) -> Result<IndexedEntry, StateError>;

    /// Moves an entry with everything below it to a path where nothing is.
    async fn rename(&mut self, from: &str, to: &str) -> Result<IndexedEntry, StateError>;

    /// Moves an entry with everything below it to the trash.
    async fn trash(&mut self, path: &str) -> Result<(), StateError>;

    /// What a removal took away, if it is still in the trash.
    async fn removed(&mut self, removal: i64) -> Result<Option<RemovedEntry>, StateError>;

    /// Moves what a removal took away back to where it was; nothing may be there.
    async fn restore(&mut self, removal: i64) -> Result<(), StateError>;

    async fn commit(self: Box<Self>) -> Result<(), StateError>;
}
