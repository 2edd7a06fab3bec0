//! One at a time across processes: a lock file that the system frees when its holder ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::Path,
    time::Duration,
};

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
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(RETRY_INTERVAL).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}
