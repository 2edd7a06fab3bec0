//! Replacing a file's content so that a reader sees the old text or the new one, never half of it.

use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// Writes `content` to `path` by renaming a temporary file of the same directory over it.
///
/// A symbolic link is followed. An existing file keeps its mode; a new one is for its owner alone.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let path = follow_links(path)?;
    let mode = match fs::metadata(&path) {
        Ok(metadata) => Some(metadata.permissions()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let temporary = temporary_beside(&path);
    let result = write_new(&temporary, content, mode).and_then(|()| fs::rename(&temporary, &path));
    if result.is_err() {
        // The original error matters; a leftover file does not.
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn write_new(path: &Path, content: &[u8], mode: Option<fs::Permissions>) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content)?;
    if let Some(mode) = mode {
        file.set_permissions(mode)?;
    }
    file.sync_all()
}

/// The file a chain of links leads to, even if that file does not exist yet.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    const LONGEST_CHAIN: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LONGEST_CHAIN {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// A name no other process or thread is using: the pid and a counter.
fn temporary_beside(path: &Path) -> PathBuf {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{name}.{}.{number}.tmp", process::id()))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_file_is_private_and_an_existing_one_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write_atomically(&path, b"one").unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(mode(&path), 0o640);
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("dotfiles/real");
        fs::create_dir(target.parent().unwrap()).unwrap();
        let link = directory.path().join("link");
        symlink("dotfiles/real", &link).unwrap();
        write_atomically(&link, b"through").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"through");
    }

    #[test]
    fn a_loop_of_links_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        symlink("b", directory.path().join("a")).unwrap();
        symlink("a", directory.path().join("b")).unwrap();
        assert!(write_atomically(&directory.path().join("a"), b"x").is_err());
    }
}
