//! Small files of a home: private, replaced whole, and owned by the owner of the home.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use hermes_config::private_file::{
    FileDurability, FileOwner, WriteOptions, create_private_dirs, open_lock_file, write_file,
};

/// Replaces a file. The directory is created, for its owner only.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_with(path, content, FileDurability::Synced)
}

/// The same for a copy of what is stored elsewhere, without waiting for the disk.
pub(crate) fn replace_copy(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_with(path, content, FileDurability::Unsynced)
}

fn replace_with(path: &Path, content: &[u8], durability: FileDurability) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        create_private_dir(directory)?;
    }
    let options = WriteOptions {
        owner: FileOwner::DirectoryOwner,
        durability,
        ..WriteOptions::default()
    };
    write_file(path, content, options)
}

/// Creates a directory and what is missing above it. An existing one keeps its mode.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    create_private_dirs(path, FileOwner::DirectoryOwner)
}

/// The text of a file without a byte order mark, or nothing if there is no file.
pub(crate) fn read_optional(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Holds an advisory lock on a file, created if missing, until dropped. Times out if another process keeps it.
pub(crate) fn lock_file(path: &Path, timeout: Duration) -> io::Result<fs::File> {
    if let Some(directory) = path.parent() {
        create_private_dir(directory)?;
    }
    let file = open_lock_file(path, FileOwner::DirectoryOwner)?;
    lock_with_timeout(&file, timeout)?;
    Ok(file)
}

/// Locks an open file, or times out if another process keeps it.
pub fn lock_with_timeout(file: &fs::File, timeout: Duration) -> io::Result<()> {
    let deadline = Instant::now() + timeout;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(fs::TryLockError::Error(error)) => return Err(error),
            Err(fs::TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_replaced_file_is_private_and_leaves_nothing_beside_it() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/file.json");
        replace_file(&path, b"one").unwrap();
        replace_file(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_byte_order_mark_is_not_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        assert_eq!(read_optional(&path).unwrap(), None);
        fs::write(&path, "\u{feff}{}").unwrap();
        assert_eq!(read_optional(&path).unwrap().as_deref(), Some("{}"));
    }

    #[test]
    fn a_held_lock_is_waited_for_and_then_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = lock_file(&path, Duration::ZERO).unwrap();
        let error = lock_file(&path, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        lock_file(&path, Duration::ZERO).unwrap();
    }
}
