//! Noticing that `state.db` has changed, appeared or been replaced, for those who keep something of it in memory.

use std::path::Path;

use hermes_config::{Home, sync::Mutex};
use sqlx::{Sqlite, pool::PoolConnection};

use crate::{
    Store, StoreError,
    db::{self, state},
};

/// The conversations of a home, whichever file they are in at the moment. Only reads.
#[derive(Debug)]
pub struct LiveStore {
    home: Home,
    held: Mutex<HeldStore>,
}

#[derive(Debug, Default)]
struct HeldStore {
    /// How many files have been opened.
    opened: u64,
    current: Option<(Store, FileId)>,
}

/// The store at the time of a poll.
#[derive(Debug, Clone)]
pub struct CurrentStore {
    /// The store, on a single connection.
    pub store: Store,
    /// Its state before anything was read from it.
    pub version: StoreVersion,
}

/// A state of the store. As long as it is the same, nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreVersion {
    opened: u64,
    data: i64,
}

impl StoreVersion {
    /// Whether both are of the same file: what was read of one tells what has changed in the other.
    pub fn is_of_same_file(&self, other: &Self) -> bool {
        self.opened == other.opened
    }
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
    pub async fn poll(&self) -> Result<Option<CurrentStore>, StoreError> {
        let Some(file) = FileId::from_path(&state::database_path(&self.home)) else {
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
                Ok(store) => self.keep_open(store, file),
                Err(StoreError::Absent { .. }) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        let data = store.data_version().await?;
        let version = StoreVersion { opened, data };
        Ok(Some(CurrentStore { store, version }))
    }

    /// Closes the connection. A later poll opens another one.
    pub async fn close(&self) {
        let current = self.lock().current.take();
        if let Some((store, _)) = current {
            store.close().await;
        }
    }

    fn keep_open(&self, store: Store, file: FileId) -> (Store, u64) {
        let mut held = self.lock();
        held.opened += 1;
        held.current = Some((store.clone(), file));
        (store, held.opened)
    }

    fn lock(&self) -> hermes_config::sync::MutexGuard<'_, HeldStore> {
        self.held.lock()
    }
}

/// The same for a reader that follows every change, on a connection of its own.
#[derive(Debug)]
pub(crate) struct StateFollower {
    home: Home,
    opened: u64,
    current: Option<StateReader>,
}

/// A store and the one connection to it.
#[derive(Debug)]
pub(crate) struct StateReader {
    pub(crate) store: Store,
    pub(crate) connection: PoolConnection<Sqlite>,
    file: FileId,
}

impl StateFollower {
    pub(crate) fn new(home: &Home) -> Self {
        Self {
            home: home.clone(),
            opened: 0,
            current: None,
        }
    }

    /// The version of the store, or nothing if there is no file.
    pub(crate) async fn poll(&mut self) -> Result<Option<StoreVersion>, StoreError> {
        let file = FileId::from_path(&state::database_path(&self.home));
        if self.current.as_ref().map(|reader| reader.file) != file {
            self.current = None;
        }
        let Some(file) = file else {
            return Ok(None);
        };
        let reader = match &mut self.current {
            Some(reader) => reader,
            none => {
                let store = match Store::open_held(&self.home).await {
                    Ok(store) => store,
                    Err(StoreError::Absent { .. }) => return Ok(None),
                    Err(error) => return Err(error),
                };
                let connection = store.readers().acquire().await;
                let connection = connection.map_err(|error| store.error(error))?;
                self.opened += 1;
                none.insert(StateReader {
                    store,
                    connection,
                    file,
                })
            }
        };
        let data = db::data_version(&mut reader.connection)
            .await
            .map_err(|error| reader.store.error(error))?;
        let opened = self.opened;
        Ok(Some(StoreVersion { opened, data }))
    }

    /// The store, if the last poll found one.
    pub(crate) fn reader(&mut self) -> Option<&mut StateReader> {
        self.current.as_mut()
    }

    pub(crate) async fn close(&mut self) {
        if let Some(StateReader {
            store, connection, ..
        }) = self.current.take()
        {
            drop(connection);
            store.close().await;
        }
    }
}

/// Device and inode: tells a file from another of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    pub(crate) fn from_path(path: &Path) -> Option<Self> {
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
