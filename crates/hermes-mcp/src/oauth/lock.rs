//! One at a time across processes: a lock file that the system frees when its holder ends.

use std::{
    fs::{File, TryLockError},
    io,
    path::Path,
    time::Duration,
};

use hermes_config::private_file::{FileOwner, open_lock_file};

/// How often a held lock is tried.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Held until dropped.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Waits for the lock. The caller sets the time limit.
    pub(super) async fn acquire(path: &Path) -> io::Result<Self> {
        let file = open_lock_file(path, FileOwner::Writer)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(RETRY_INTERVAL).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}
