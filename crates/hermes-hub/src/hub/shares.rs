//! The files of groups that are open, and what may be done with files at once.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use hermes_config::sync::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{Hub, StartError};
use crate::{
    GroupId, Problem, ProblemCode, TokenId,
    api_types::Time,
    storage::{
        data_dir::ensure_private_dir,
        files::{
            BlobStore, DirectoryFiles, FileLimits, Files, ObjectFiles, QuotaLimits, forget_origins,
            run_blocking,
        },
        objects::Objects,
        state::{GroupRecord, Page, ShareIndexStore, State, StateError},
    },
    tenants::locks::TenantLocks,
};

const MAX_ARCHIVES: usize = 8;
const MAX_SEARCHES_PER_TOKEN: usize = 2;

/// Open shares, and the limits of work on files.
pub(crate) struct FileAccess {
    pub(crate) shares: OpenShares,
    pub(crate) searches: ActiveSearches,
    /// Limits concurrent archives: each occupies a thread until its receiver has read it.
    pub(crate) archives: Arc<Semaphore>,
    /// Changes of homes.
    pub(crate) homes: TenantLocks,
    /// Where shares are, unless they are directories.
    pub(crate) objects: Option<ObjectShares>,
}

/// Shares in object storage.
pub(crate) struct ObjectShares {
    pub(crate) objects: Objects,
    pub(crate) index: Arc<dyn ShareIndexStore>,
    pub(crate) blobs: Arc<BlobStore>,
}

impl ObjectShares {
    /// Opens object storage, if the database is one that nodes share.
    pub(super) async fn open(
        state: &dyn State,
        objects: Option<&Objects>,
        data_dir: &Path,
    ) -> Result<Option<Self>, StartError> {
        let (Some(index), Some(objects)) = (state.share_index(), objects) else {
            return Ok(None);
        };
        let cache = data_dir.join("cache").join("blobs");
        let (of_blobs, indexed) = (objects.clone(), Arc::clone(&index));
        let opened =
            tokio::task::spawn_blocking(move || BlobStore::open(of_blobs, indexed, &cache));
        let opened = opened.await.map_err(std::io::Error::other).flatten();
        let blobs = opened.map_err(|error| StartError::Setting {
            key: "data_dir",
            reason: format!("the cache of object storage cannot be opened: {error}"),
        })?;
        Ok(Some(Self {
            objects: objects.clone(),
            index,
            blobs: Arc::new(blobs),
        }))
    }
}

impl FileAccess {
    pub(super) fn new(objects: Option<ObjectShares>) -> Self {
        Self {
            objects,
            shares: OpenShares::default(),
            searches: ActiveSearches::default(),
            archives: Arc::new(Semaphore::new(MAX_ARCHIVES)),
            homes: TenantLocks::default(),
        }
    }
}

/// A share that is open. Its limits change while it is: a second object would not have the locks of the first.
struct OpenShare {
    files: Arc<dyn Files>,
    quota_bytes: u64,
    /// Of the group whose quota that is: when it was created, and its revision.
    version: (Time, u64),
}

#[derive(Default)]
pub(crate) struct OpenShares(Mutex<HashMap<GroupId, OpenShare>>);

impl OpenShares {
    fn lock(&self) -> MutexGuard<'_, HashMap<GroupId, OpenShare>> {
        self.0.lock()
    }

    /// Closes a share that was deleted.
    fn close(&self, group: &GroupId) {
        self.lock().remove(group);
    }
}

fn limits_with_quota(limits: FileLimits, quota_bytes: u64) -> FileLimits {
    let quota = QuotaLimits {
        bytes: (quota_bytes > 0).then_some(quota_bytes),
        files: None,
    };
    FileLimits { quota, ..limits }
}

/// Number of active searches by token.
#[derive(Default)]
pub(crate) struct ActiveSearches(Mutex<HashMap<TokenId, usize>>);

impl ActiveSearches {
    /// Counts a search, unless its token has too many.
    pub(crate) fn acquire(&self, token: &TokenId) -> Result<SearchPermit<'_>, Problem> {
        let mut searches = self.0.lock();
        let count = searches.entry(token.clone()).or_default();
        if *count >= MAX_SEARCHES_PER_TOKEN {
            let message = format!(
                "{MAX_SEARCHES_PER_TOKEN} searches of this token are in progress; wait for one to end"
            );
            return Err(Problem::new(ProblemCode::ResourceExhausted, message)
                .with_reason("concurrency")
                .with_retry_after(1000));
        }
        *count += 1;
        Ok(SearchPermit {
            searches: self,
            token: token.clone(),
            cancel: CancellationToken::new(),
        })
    }
}

/// A running search, cancelled on drop.
pub(crate) struct SearchPermit<'a> {
    searches: &'a ActiveSearches,
    token: TokenId,
    cancel: CancellationToken,
}

impl SearchPermit<'_> {
    pub(crate) fn cancellation(&self) -> CancellationToken {
        self.cancel.clone()
    }
}

impl Drop for SearchPermit<'_> {
    fn drop(&mut self) {
        self.cancel.cancel();
        let mut searches = self.searches.0.lock();
        if let Some(count) = searches.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                searches.remove(&self.token);
            }
        }
    }
}

impl Hub {
    /// Opens the files of a group; creates the directory if missing.
    pub(crate) async fn open_share(&self, group: &GroupId) -> Result<Arc<dyn Files>, Problem> {
        if let Some(share) = self.files().shares.lock().get(group) {
            return Ok(Arc::clone(&share.files));
        }
        let Some(record) = self.state().group(group).await? else {
            return self.open_files(group).await;
        };
        let opened = self.open_files(group).await?;
        let files = self.keep_share(&record, opened);
        // A quota that was changed since the first look found no open share.
        self.read_quota(group).await?;
        Ok(files)
    }

    async fn open_files(&self, group: &GroupId) -> Result<Arc<dyn Files>, Problem> {
        let limits = self.file_limits();
        if let Some(objects) = &self.files().objects {
            let (index, blobs) = (Arc::clone(&objects.index), Arc::clone(&objects.blobs));
            let opened = ObjectFiles::open(group.clone(), index, blobs, limits);
            return Ok(Arc::new(opened));
        }
        let (root, trash) = (
            self.share_directory(group),
            self.settings().data_dir.join("trash"),
        );
        let opened = run_blocking(move || {
            let made = ensure_private_dir(&root).and_then(|()| ensure_private_dir(&trash));
            made.and_then(|()| DirectoryFiles::open(&root, &trash, limits))
                .map_err(|error| {
                    tracing::error!(%error, "failed to open a share");
                    Problem::new(
                        ProblemCode::Unavailable,
                        "the share's files cannot be opened; the Hub's log has the reason",
                    )
                    .with_retry_after(1000)
                })
        })
        .await?;
        Ok(Arc::new(opened))
    }

    /// One object per share: another request may have opened it meanwhile.
    fn keep_share(&self, record: &GroupRecord, opened: Arc<dyn Files>) -> Arc<dyn Files> {
        let mut shares = self.files().shares.lock();
        let quota_bytes = record.group.quota_bytes;
        let share = shares.entry(record.group.id.clone()).or_insert_with(|| {
            opened.set_limits(limits_with_quota(self.file_limits(), quota_bytes));
            OpenShare {
                files: opened,
                quota_bytes,
                version: (record.created_at, record.revision),
            }
        });
        Arc::clone(&share.files)
    }

    /// Reads the quota of a share that is open.
    async fn read_quota(&self, group: &GroupId) -> Result<(), StateError> {
        match self.state().group(group).await? {
            Some(record) => self.set_quota(&record),
            None => self.files().shares.close(group),
        }
        Ok(())
    }

    /// Reads the quotas of all shares that are open.
    pub(super) async fn read_quotas(&self) -> Result<(), StateError> {
        if self.files().shares.lock().is_empty() {
            return Ok(());
        }
        let mut page = Page {
            limit: 500,
            cursor: None,
        };
        loop {
            let groups = self.state().groups(&page).await?;
            for record in &groups.items {
                self.set_quota(record);
            }
            page.cursor = groups.next;
            if page.cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Acts on a change of a group on another node.
    pub(super) async fn follow_group(&self, group: &GroupId) -> Result<(), StateError> {
        let is_open = self.files().shares.lock().contains_key(group);
        if is_open {
            self.read_quota(group).await?;
        }
        Ok(())
    }

    /// Sets the quota of a share, if it is open and knows no later one.
    pub(super) fn set_quota(&self, record: &GroupRecord) {
        let mut shares = self.files().shares.lock();
        let version = (record.created_at, record.revision);
        if let Some(share) = shares.get_mut(&record.group.id)
            && share.version <= version
        {
            share.version = version;
            share.quota_bytes = record.group.quota_bytes;
            let limits = limits_with_quota(self.file_limits(), share.quota_bytes);
            share.files.set_limits(limits);
        }
    }

    /// Gives the limits of the settings to all shares that are open.
    pub(super) fn set_share_limits(&self) {
        for share in self.files().shares.lock().values() {
            let limits = limits_with_quota(self.file_limits(), share.quota_bytes);
            share.files.set_limits(limits);
        }
    }

    fn share_directory(&self, group: &GroupId) -> PathBuf {
        self.settings().data_dir.join("shares").join(group.as_str())
    }

    /// Moves the files of a deleted group to the trash.
    pub(crate) async fn trash_share(&self, group: &GroupId) {
        self.files().shares.close(group);
        if let Some(objects) = &self.files().objects {
            if let Err(error) = objects.index.trash_share(group).await {
                tracing::warn!(%group, %error, "failed to move the files of a deleted group to the trash");
            }
            return;
        }
        let root = self.share_directory(group);
        let trash = self.settings().data_dir.join("trash");
        let name = format!("group-{group}-{}", Time::now().millis());
        let label = group.to_string();
        let moved = run_blocking(move || {
            let moved = ensure_private_dir(&trash)
                .and_then(|()| std::fs::rename(&root, trash.join(name)))
                .and_then(|()| forget_origins(&trash, &label));
            match moved {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(Problem::internal(&error))
                }
                _ => Ok(()),
            }
        });
        if let Err(problem) = moved.await {
            tracing::warn!(%group, %problem, "failed to move the files of a deleted group to the trash");
        }
    }
}
