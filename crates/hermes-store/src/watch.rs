//! Noticing that `state.db` has changed, appeared or been replaced, for those who keep something of it in memory.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use hermes_config::Home;

use crate::{Store, StoreError, db::state};

/// The conversations of a home, whichever file they are in at the moment. Only reads.
#[derive(Debug)]
pub struct LiveStore {
    home: Home,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// How many files have been opened.
    opened: u64,
    current: Option<(Store, FileId)>,
}

/// What a look found.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The store, on a single connection.
    pub store: Store,
    /// Its state before anything was read from it.
    pub version: Version,
}

/// A state of the store. As long as it is the same, nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    opened: u64,
    data: i64,
}

impl LiveStore {
    /// Opens nothing yet.
    pub fn new(home: &Home) -> Self {
        Self {
            home: home.clone(),
            held: Mutex::default(),
        }
    }

    /// The store and its version, or nothing if there is no file.
    pub async fn look(&self) -> Result<Option<Seen>, StoreError> {
        let Some(file) = FileId::of(&state::path(&self.home)) else {
            self.lock().current = None;
            return Ok(None);
        };
        let held = {
            let held = self.lock();
            let current = held.current.as_ref();
            current
                .filter(|(_, known)| *known == file)
                .map(|(store, _)| (store.clone(), held.opened))
        };
        let (store, opened) = match held {
            Some(held) => held,
            None => match Store::open_held(&self.home).await {
                Ok(store) => self.hold(store, file),
                Err(StoreError::Absent { .. }) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        let data = store.data_version().await?;
        let version = Version { opened, data };
        Ok(Some(Seen { store, version }))
    }

    /// Closes the connection. A later look opens another one.
    pub async fn close(&self) {
        let current = self.lock().current.take();
        if let Some((store, _)) = current {
            store.close().await;
        }
    }

    fn hold(&self, store: Store, file: FileId) -> (Store, u64) {
        let mut held = self.lock();
        held.opened += 1;
        held.current = Some((store.clone(), file));
        (store, held.opened)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells one file from another that took its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Some(Self(metadata.dev(), metadata.ino()))
        }
        #[cfg(not(unix))]
        {
            let created = metadata.created().ok()?;
            let since = created.duration_since(std::time::UNIX_EPOCH).ok()?;
            Some(Self(since.as_secs(), u64::from(since.subsec_nanos())))
        }
    }
}
