//! A log file of a home: for its owner alone, appended to by every running process, never above its cap, one old one
//! kept.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::private_file::{
    FileOwner, create_private_dir, create_private_dirs, open_private_append,
};

/// The size at which a new file is begun.
const MAX_BYTES: u64 = 10 * 1024 * 1024;

/// A log file that is opened at the first line.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    open: Option<File>,
    directory_creation: DirectoryCreation,
    max_bytes: u64,
}

/// Which directories are made for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectoryCreation {
    All,
    ParentOnly,
}

impl LogFile {
    /// A log at this path. All directories on the way to it are made.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            open: None,
            directory_creation: DirectoryCreation::All,
            max_bytes: MAX_BYTES,
        }
    }

    /// The same, of something that may outlive its home: a home that was removed stays so.
    pub fn in_existing_home(path: PathBuf) -> Self {
        Self {
            directory_creation: DirectoryCreation::ParentOnly,
            ..Self::new(path)
        }
    }

    /// Writes lines if it can. A failure, such as a full disk, is not reported; the next line tries again.
    pub fn append(&mut self, lines: &[u8]) {
        if self.try_append(lines).is_err() {
            self.open = None;
        }
    }

    fn try_append(&mut self, lines: &[u8]) -> io::Result<()> {
        let cap = self.max_bytes;
        let mut file = self.current_file()?;
        let size = file.metadata()?.len();
        if size > 0 && size + lines.len() as u64 > cap {
            self.rotate()?;
            file = self.current_file()?;
        }
        file.write_all(lines)
    }

    /// The file at the path now: another process may have rotated it.
    fn current_file(&mut self) -> io::Result<&File> {
        let open = self
            .open
            .take()
            .filter(|file| is_same_file(file, &self.path));
        let file = match open {
            Some(file) => file,
            None => self.open_private()?,
        };
        Ok(self.open.insert(file))
    }

    /// Rotates under a lock, so that two processes do not rotate one after the other.
    fn rotate(&mut self) -> io::Result<()> {
        let Some(file) = self.open.take() else {
            return Ok(());
        };
        file.lock()?;
        if is_same_file(&file, &self.path) {
            fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        Ok(())
    }

    fn open_private(&self) -> io::Result<File> {
        if let Some(directory) = self.path.parent() {
            match self.directory_creation {
                DirectoryCreation::All => create_private_dirs(directory, FileOwner::Writer)?,
                DirectoryCreation::ParentOnly => create_private_dir(directory)?,
            }
        }
        open_private_append(&self.path)
    }
}

impl Write for LogFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.append(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same_file(_file: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn small(path: &Path) -> LogFile {
        LogFile {
            max_bytes: 10,
            ..LogFile::new(path.to_owned())
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_file_is_private_and_appended_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("home/logs/hermes.log");
        LogFile::new(path.clone()).append(b"one\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        LogFile::new(path.clone()).append(b"two\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }

    #[test]
    fn a_full_file_is_put_aside_and_one_old_one_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hermes.log");
        let mut log = small(&path);
        for line in ["first\n", "second\n", "third\n"] {
            log.append(line.as_bytes());
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "third\n");
        let old = fs::read_to_string(directory.path().join("hermes.log.1")).unwrap();
        assert_eq!(old, "second\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_line_above_the_cap_puts_no_empty_file_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hermes.log");
        small(&path).append(b"longer than ten\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_process_follows_when_another_has_put_the_file_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hermes.log");
        let (mut one, mut other) = (small(&path), small(&path));
        one.append(b"12345678\n");
        other.append(b"full\n");
        one.append(b"new\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "full\nnew\n");
    }

    #[test]
    fn a_directory_that_cannot_be_made_stops_nobody() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("logs"), "in the way").unwrap();
        let mut log = LogFile::new(directory.path().join("logs/hermes.log"));
        assert!(log.write_all(b"line\n").is_ok());
    }

    #[test]
    fn a_home_that_was_removed_stays_so() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        fs::create_dir(&home).unwrap();
        let mut log = LogFile::in_existing_home(home.join("logs/mcp-stderr.log"));
        log.append(b"line\n");
        fs::remove_dir_all(&home).unwrap();
        log.append(b"line\n");
        assert!(!home.exists());
    }
}
