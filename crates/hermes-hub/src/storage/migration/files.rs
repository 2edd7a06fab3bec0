//! The files of shares.

use std::{ops::ControlFlow, path::PathBuf, sync::Arc};

use bytes::Bytes;
use hermes_config::beneath::SymlinkPolicy;
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt as _;

use super::{HubStorage, MigrationError, MigrationReport};
use crate::{
    GroupId, Problem,
    storage::{
        data_dir::ensure_private_dir,
        files::{
            BlobStore, DirectoryFiles, EntryType, FileLimits, Files, ObjectFiles, QuotaLimits,
            SharePath, Tree, WriteMode, run_blocking, walk_tree,
        },
        state::{BlobRef, IndexedContent, Page, ShareIndexStore},
    },
};

const PAGE: u32 = 500;
const PART_BYTES: usize = 8 << 20;
const NO_LIMITS: FileLimits = FileLimits {
    read_bytes: usize::MAX,
    write_bytes: usize::MAX,
    list_entries: usize::MAX,
    quota: QuotaLimits {
        bytes: None,
        files: None,
    },
};

pub(super) async fn copy_shares(
    from: &HubStorage,
    to: &HubStorage,
    report: &mut MigrationReport,
) -> Result<(), MigrationError> {
    let mut page = Page::first(PAGE);
    loop {
        let groups = from.state.shared().groups(&page).await?;
        for record in groups.items {
            let group = record.group.id;
            let source = ShareSide::open(from, &group).await?;
            let target = ShareSide::open(to, &group).await?;
            copy_share(&source, &target, report).await?;
            report.shares += 1;
        }
        match groups.next {
            Some(next) => page = Page::after(PAGE, next),
            None => return Ok(()),
        }
    }
}

async fn copy_share(
    from: &ShareSide,
    to: &ShareSide,
    report: &mut MigrationReport,
) -> Result<(), MigrationError> {
    for (path, kind) in from.entries().await? {
        match kind {
            EntryType::Symlink => report.skipped_links += 1,
            EntryType::Dir => {
                to.files.make_dir(&path).await?;
            }
            EntryType::File => {
                let (hash, size) = copy_file(from, to, &path).await?;
                if hash_of(to, &path).await? != hash {
                    return Err(MigrationError::Different {
                        path: path.to_string(),
                    });
                }
                report.share_files += 1;
                report.share_bytes += size;
            }
        }
    }
    Ok(())
}

async fn copy_file(
    from: &ShareSide,
    to: &ShareSide,
    path: &SharePath,
) -> Result<(Vec<u8>, u64), MigrationError> {
    let mut parts = from.open_file(path).await?;
    let mut hash = Sha256::new();
    let (mut size, mut mode) = (0, WriteMode::Overwrite);
    loop {
        let part = parts.next().await?;
        let is_first = mode == WriteMode::Overwrite;
        if part.is_empty() && !is_first {
            return Ok((hash.finalize().to_vec(), size));
        }
        hash.update(&part);
        size += part.len() as u64;
        let is_last = part.is_empty();
        to.files.write(path, part, mode, None).await?;
        if is_last {
            return Ok((hash.finalize().to_vec(), size));
        }
        mode = WriteMode::Append;
    }
}

async fn hash_of(side: &ShareSide, path: &SharePath) -> Result<Vec<u8>, MigrationError> {
    let mut parts = side.open_file(path).await?;
    let mut hash = Sha256::new();
    loop {
        let part = parts.next().await?;
        if part.is_empty() {
            return Ok(hash.finalize().to_vec());
        }
        hash.update(&part);
    }
}

/// A share of one of the two Hubs.
struct ShareSide {
    files: Arc<dyn Files>,
    place: ShareStorage,
}

enum ShareStorage {
    Directory(PathBuf),
    Objects {
        group: GroupId,
        index: Arc<dyn ShareIndexStore>,
        blobs: Arc<BlobStore>,
    },
}

impl ShareSide {
    async fn open(storage: &HubStorage, group: &GroupId) -> Result<Self, MigrationError> {
        let state = storage.state.shared();
        if let (Some(objects), Some(index)) = (&storage.objects, state.share_index()) {
            let cache = storage.data_dir.join("cache").join("blobs");
            let (objects, indexed) = (objects.clone(), Arc::clone(&index));
            let shown = cache.display().to_string();
            let opened =
                tokio::task::spawn_blocking(move || BlobStore::open(objects, indexed, &cache));
            let opened = opened.await.map_err(std::io::Error::other).flatten();
            let blobs = Arc::new(opened.map_err(|source| MigrationError::Io {
                path: shown,
                source,
            })?);
            let files = ObjectFiles::open(
                group.clone(),
                Arc::clone(&index),
                Arc::clone(&blobs),
                NO_LIMITS,
            );
            return Ok(Self {
                files: Arc::new(files),
                place: ShareStorage::Objects {
                    group: group.clone(),
                    index,
                    blobs,
                },
            });
        }
        let root = storage.data_dir.join("shares").join(group.as_str());
        let trash = storage.data_dir.join("trash");
        let (made, shown) = (root.clone(), root.display().to_string());
        let opened = tokio::task::spawn_blocking(move || {
            ensure_private_dir(&made)?;
            ensure_private_dir(&trash)?;
            DirectoryFiles::open(&made, &trash, NO_LIMITS)
        });
        let opened = opened.await.map_err(std::io::Error::other).flatten();
        let files = opened.map_err(|source| MigrationError::Io {
            path: shown,
            source,
        })?;
        Ok(Self {
            files: Arc::new(files),
            place: ShareStorage::Directory(root),
        })
    }

    /// Everything in it, directories before what is in them.
    async fn entries(&self) -> Result<Vec<(SharePath, EntryType)>, MigrationError> {
        match &self.place {
            ShareStorage::Directory(root) => {
                let root = root.clone();
                Ok(run_blocking(move || walk_directory(&root)).await?)
            }
            ShareStorage::Objects { group, index, .. } => {
                let mut entries = Vec::new();
                let mut after = String::new();
                loop {
                    let page = index
                        .entries_below(group, "", &after, PAGE as usize)
                        .await?;
                    let Some(last) = page.last() else {
                        return Ok(entries);
                    };
                    after.clone_from(&last.path);
                    for entry in &page {
                        let kind = match entry.content {
                            IndexedContent::Directory => EntryType::Dir,
                            IndexedContent::File(_) => EntryType::File,
                        };
                        entries.push((SharePath::parse(&entry.path)?, kind));
                    }
                }
            }
        }
    }

    async fn open_file(&self, path: &SharePath) -> Result<FileParts, MigrationError> {
        match &self.place {
            ShareStorage::Directory(root) => {
                let shown = path.to_string();
                let path = root.join(path.as_str());
                match tokio::fs::File::open(&path).await {
                    Ok(file) => Ok(FileParts::Plain(file, shown)),
                    Err(source) => Err(MigrationError::Io {
                        path: shown,
                        source,
                    }),
                }
            }
            ShareStorage::Objects {
                group,
                index,
                blobs,
            } => {
                let entry = index.indexed_entry(group, path.as_str()).await?;
                let parts = match entry.map(|entry| entry.content) {
                    Some(IndexedContent::File(parts)) => parts,
                    _ => Vec::new(),
                };
                Ok(FileParts::Blobs(parts.into_iter(), Arc::clone(blobs)))
            }
        }
    }
}

fn walk_directory(root: &std::path::Path) -> Result<Vec<(SharePath, EntryType)>, Problem> {
    let failed = |error: rustix::io::Errno| Problem::internal(&error);
    let tree = Tree::open(root).map_err(failed)?;
    let directory = tree
        .open_dir(&SharePath::root(), SymlinkPolicy::Refuse)
        .map_err(failed)?;
    let mut entries = Vec::new();
    let _ = walk_tree(directory, "", &mut |entry| {
        if let Ok(path) = SharePath::parse(entry.path) {
            entries.push((path, entry.entry_type));
        }
        ControlFlow::Continue(())
    });
    Ok(entries)
}

/// The content of a file, part by part.
enum FileParts {
    Plain(tokio::fs::File, String),
    Blobs(std::vec::IntoIter<BlobRef>, Arc<BlobStore>),
}

impl FileParts {
    /// Empty at the end.
    async fn next(&mut self) -> Result<Bytes, MigrationError> {
        match self {
            Self::Blobs(parts, blobs) => match parts.next() {
                Some(part) => Ok(blobs.read(&part).await?),
                None => Ok(Bytes::new()),
            },
            Self::Plain(file, path) => {
                let mut part = Vec::new();
                let read = file.take(PART_BYTES as u64).read_to_end(&mut part).await;
                read.map_err(|source| MigrationError::Io {
                    path: path.clone(),
                    source,
                })?;
                Ok(part.into())
            }
        }
    }
}
