//! Files of a share in a local directory. Everything goes through a descriptor of that directory; only this process
//! writes there.

pub(crate) mod count;
mod relocate;
mod remove;
mod restore;
mod unpack;
pub(crate) mod write;

use std::{io, os::fd::OwnedFd, path::Path, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use hermes_config::{
    beneath::DIRECTORY_FLAGS,
    sync::{Mutex, MutexGuard, RwLock, stripe_index},
};
use rustix::{
    fs::{Mode, fstat, open},
    io::Errno,
};
use tokio_util::sync::CancellationToken;

use super::{
    CreateOutcome, FileEntry, FileLimits, FileText, Files, FindQuery, FindResult, GrepQuery,
    GrepResult, IfMatch, LineRange, Listing, RemoveMode, SharePath, TrashedEntry, TreeUsage,
    WriteMode, WrittenFile, budget::SearchBudget, find, quota::Quota, search, text, tree::Tree,
    workspace::read_part,
};
use crate::{Problem, storage::files::problems};
pub use remove::empty_trash;
pub use restore::forget_origins;
pub use unpack::UnpackedArchive;

#[derive(Debug, Clone)]
pub struct DirectoryFiles(Arc<SharedDirectory>);

#[derive(Debug)]
struct SharedDirectory {
    tree: Tree,
    /// Where removed files go; without it, they are deleted.
    trash: Option<OwnedFd>,
    /// By which it finds its own files there.
    label: String,
    limits: RwLock<FileLimits>,
    quota: Quota,
    /// Held shared by writers of single files, exclusively for moving, removing or counting whole trees.
    tree_lock: RwLock<()>,
    path_locks: PathLocks,
}

impl DirectoryFiles {
    /// Opens a share. Removed files go to the trash directory, which must be on the same file system. The usage is
    /// counted when it is first needed, and temporary files of interrupted writes are removed then.
    ///
    /// There must be one such object per share: its clones share locks and quota, a second one would not.
    pub fn open(root: &Path, trash: &Path, limits: FileLimits) -> io::Result<Self> {
        let tree = Tree::open(root)?;
        let trash = open(trash, DIRECTORY_FLAGS, Mode::empty())?;
        if fstat(tree.root())?.st_dev != fstat(&trash)?.st_dev {
            return Err(io::Error::other(
                "the trash must be on the same file system as the shares",
            ));
        }
        Ok(Self(Arc::new(SharedDirectory {
            tree,
            trash: Some(trash),
            label: restore::trash_label(root),
            limits: RwLock::new(limits),
            quota: Quota::default(),
            tree_lock: RwLock::new(()),
            path_locks: PathLocks::default(),
        })))
    }

    /// Opens a directory of a home for one change, refusing a link: the agent works there at the same time. `used` is
    /// what the whole home takes. What is removed is deleted.
    pub(crate) fn open_in_home(
        home: &Path,
        name: &str,
        limits: FileLimits,
        used: TreeUsage,
    ) -> io::Result<Self> {
        let quota = Quota::default();
        quota.set_used(used);
        Ok(Self(Arc::new(SharedDirectory {
            tree: Tree::open_in(home, name)?,
            trash: None,
            label: String::new(),
            limits: RwLock::new(limits),
            quota,
            tree_lock: RwLock::new(()),
            path_locks: PathLocks::default(),
        })))
    }

    /// Unpacks an archive into a directory: all of it, or nothing if anything in it is refused.
    pub(crate) async fn unpack(
        &self,
        base: &SharePath,
        archive: Bytes,
    ) -> Result<UnpackedArchive, Problem> {
        let base = base.clone();
        self.run_blocking(move |share| share.unpack(&base, &archive))
            .await
    }

    /// Counts the usage again, and removes temporary files of interrupted writes.
    pub async fn recount(&self) -> Result<TreeUsage, Problem> {
        self.run_blocking(SharedDirectory::recount).await
    }

    /// Runs blocking work on a blocking thread. Work that has started is completed.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SharedDirectory) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let share = Arc::clone(&self.0);
        run_blocking(move || work(&share)).await
    }
}

/// Runs blocking work; a panic becomes an internal problem.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Problem::internal(&error)),
    }
}

#[async_trait]
impl Files for DirectoryFiles {
    async fn list(&self, path: &SharePath) -> Result<Listing, Problem> {
        let path = path.clone();
        self.run_blocking(move |share| share.tree.list(&path, share.limits().list_entries))
            .await
    }

    async fn read(&self, path: &SharePath, lines: LineRange) -> Result<FileText, Problem> {
        let path = path.clone();
        self.run_blocking(move |share| {
            text::read_lines(&share.tree, &path, lines, share.limits().read_bytes)
        })
        .await
    }

    async fn read_part(
        &self,
        path: &SharePath,
        start: u64,
        most: usize,
    ) -> Result<(FileEntry, Bytes), Problem> {
        let path = path.clone();
        self.run_blocking(move |share| read_part(&share.tree, &path, start, most))
            .await
    }

    async fn stat(&self, path: &SharePath) -> Result<FileEntry, Problem> {
        let path = path.clone();
        self.run_blocking(move |share| share.tree.stat(&path)).await
    }

    async fn grep(
        &self,
        search: GrepQuery,
        cancel: CancellationToken,
    ) -> Result<GrepResult, Problem> {
        // The search is cancelled when the caller goes away.
        let cancel = cancel.child_token();
        let _guard = cancel.clone().drop_guard();
        self.run_blocking(move |share| {
            search::search_tree(&share.tree, &search, SearchBudget::new(cancel))
        })
        .await
    }

    async fn find(
        &self,
        find: FindQuery,
        cancel: CancellationToken,
    ) -> Result<FindResult, Problem> {
        let cancel = cancel.child_token();
        let _guard = cancel.clone().drop_guard();
        self.run_blocking(move |share| {
            find::find_paths(&share.tree, &find, SearchBudget::new(cancel))
        })
        .await
    }

    async fn write(
        &self,
        path: &SharePath,
        content: Bytes,
        mode: WriteMode,
        condition: Option<IfMatch>,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        let path = path.clone();
        self.run_blocking(move |share| share.write(&path, &content, mode, condition.as_ref()))
            .await
    }

    async fn make_dir(&self, path: &SharePath) -> Result<(CreateOutcome, FileEntry), Problem> {
        let path = path.clone();
        self.run_blocking(move |share| share.make_dir(&path)).await
    }

    async fn relocate(
        &self,
        from: &SharePath,
        to: &SharePath,
        condition: Option<IfMatch>,
    ) -> Result<FileEntry, Problem> {
        let (from, to) = (from.clone(), to.clone());
        self.run_blocking(move |share| share.relocate(&from, &to, condition.as_ref()))
            .await
    }

    async fn remove(
        &self,
        path: &SharePath,
        removal: RemoveMode,
        condition: Option<IfMatch>,
    ) -> Result<(), Problem> {
        let path = path.clone();
        self.run_blocking(move |share| share.remove(&path, removal, condition.as_ref()))
            .await
    }

    async fn list_trash(&self) -> Result<Vec<TrashedEntry>, Problem> {
        self.run_blocking(SharedDirectory::list_trash).await
    }

    async fn restore(&self, id: &str) -> Result<FileEntry, Problem> {
        let id = id.to_owned();
        self.run_blocking(move |share| share.restore(&id)).await
    }

    async fn usage(&self) -> Result<TreeUsage, Problem> {
        self.run_blocking(SharedDirectory::usage).await
    }

    async fn clear_interrupted(&self, directory: &SharePath) -> Result<(), Problem> {
        let path = directory.clone();
        self.run_blocking(move |share| share.remove_temp_files(&path))
            .await
    }

    fn set_limits(&self, limits: FileLimits) {
        *self.0.limits.write() = limits;
    }
}

impl SharedDirectory {
    fn limits(&self) -> FileLimits {
        *self.limits.read()
    }

    fn problem_for(path: &SharePath) -> impl Fn(Errno) -> Problem + '_ {
        move |error| problems::problem_from_errno(error, path)
    }
}

/// Striped locks: several paths may share one.
#[derive(Debug)]
struct PathLocks([Mutex<()>; 64]);

impl Default for PathLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl PathLocks {
    fn lock(&self, path: &SharePath) -> MutexGuard<'_, ()> {
        self.0[stripe_index(path, self.0.len())].lock()
    }
}
