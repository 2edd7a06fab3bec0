//! The home's databases: opened on demand, and reopened when the file was replaced.

use std::path::Path;

use hermes_config::{Home, sync::Mutex};
use hermes_store::{LiveStore, Store, StoreError, runtime::RuntimeStore};

use crate::conversations::LockRetry;

#[derive(Debug)]
pub(super) struct Databases {
    home: Home,
    conversations: LiveStore,
    runtime: Mutex<Option<(FileIdentity, RuntimeStore)>>,
}

impl Databases {
    pub(super) fn new(home: Home) -> Self {
        Self {
            conversations: LiveStore::new(&home),
            home,
            runtime: Mutex::default(),
        }
    }

    /// The session store, read-only. `None` if it does not exist yet.
    pub(super) async fn conversations(&self) -> Result<Option<Store>, StoreError> {
        let waiting = LockRetry::new();
        loop {
            match self.conversations.poll().await {
                Err(error) if waiting.wait_to_retry(&error).await => {}
                outcome => return Ok(outcome?.map(|seen| seen.store)),
            }
        }
    }

    /// The store of pending approvals.
    pub(super) async fn runtime(&self) -> Result<RuntimeStore, StoreError> {
        let path = self.home.path().join("runtime.db");
        if let Some(store) = self.open_runtime(FileIdentity::from_path(&path)) {
            return Ok(store);
        }
        let store = RuntimeStore::open(&self.home).await?;
        let identity = FileIdentity::from_path(&path);
        let mut kept = self.runtime.lock();
        *kept = identity.map(|identity| (identity, store.clone()));
        Ok(store)
    }

    /// The open store, if the file is still the same.
    fn open_runtime(&self, now: Option<FileIdentity>) -> Option<RuntimeStore> {
        let kept = self.runtime.lock();
        let (identity, store) = kept.as_ref()?;
        (Some(*identity) == now).then(|| store.clone())
    }

    pub(super) async fn close(&self) {
        self.conversations.close().await;
        let runtime = {
            let mut kept = self.runtime.lock();
            kept.take()
        };
        if let Some((_, store)) = runtime {
            store.close().await;
        }
    }
}

/// Identifies a file, to detect that it was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileIdentity(u64, u64);

impl FileIdentity {
    #[cfg(unix)]
    fn from_path(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = path.metadata().ok()?;
        Some(Self(metadata.dev(), metadata.ino()))
    }

    #[cfg(not(unix))]
    fn from_path(path: &Path) -> Option<Self> {
        path.exists().then_some(Self(0, 0))
    }
}
