//! The home's databases as the bridge uses them: opened when first needed, and anew when the file was replaced.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use hermes_config::Home;
use hermes_store::{Access, Store, StoreError, runtime::RuntimeStore};

/// Tells a file from another one that has taken its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = path.metadata().ok()?;
        Some(Self(metadata.dev(), metadata.ino()))
    }

    #[cfg(not(unix))]
    fn of(path: &Path) -> Option<Self> {
        path.exists().then_some(Self(0, 0))
    }
}

/// What is open, and the file it is.
#[derive(Debug)]
struct Kept<T>(Mutex<Option<(Identity, T)>>);

impl<T: Clone> Kept<T> {
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// What is open, if the file is still the same.
    fn get(&self, path: &Path) -> Option<T> {
        let now = Identity::of(path);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((identity, value)) if Some(*identity) == now => Some(value.clone()),
            _ => {
                *kept = None;
                None
            }
        }
    }

    fn take(&self) -> Option<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take().map(|(_, value)| value)
    }

    fn keep(&self, path: &Path, value: &T) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Identity::of(path).map(|identity| (identity, value.clone()));
    }
}

/// The databases of a home.
#[derive(Debug)]
pub(super) struct Databases {
    home: Home,
    conversations: Kept<Store>,
    runtime: Kept<RuntimeStore>,
}

impl Databases {
    pub(super) fn new(home: Home) -> Self {
        Self {
            home,
            conversations: Kept::new(),
            runtime: Kept::new(),
        }
    }

    /// The conversations, for reading only.
    pub(super) async fn conversations(&self) -> Result<Store, StoreError> {
        let path = self.path("state.db");
        if let Some(store) = self.conversations.get(&path) {
            return Ok(store);
        }
        let store = Store::open(&self.home, Access::ReadOnly).await?;
        self.conversations.keep(&path, &store);
        Ok(store)
    }

    /// The questions that wait for a decision.
    pub(super) async fn runtime(&self) -> Result<RuntimeStore, StoreError> {
        let path = self.path("runtime.db");
        if let Some(store) = self.runtime.get(&path) {
            return Ok(store);
        }
        let store = RuntimeStore::open(&self.home).await?;
        self.runtime.keep(&path, &store);
        Ok(store)
    }

    /// Closes what is open.
    pub(super) async fn close(&self) {
        if let Some(store) = self.conversations.take() {
            store.close().await;
        }
        if let Some(store) = self.runtime.take() {
            store.close().await;
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}
