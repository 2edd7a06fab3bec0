//! The log file: for its owner alone, appended to by every running process, never above its cap, one old one kept.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The size at which a new file is begun.
const CAP: u64 = 10 * 1024 * 1024;

/// A log file that is opened at the first line.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    open: Option<File>,
    cap: u64,
}

impl LogFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            open: None,
            cap: CAP,
        }
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let mut file = self.current()?;
        if file.metadata()?.len() + line.len() as u64 > self.cap {
            // Under a lock, so that two processes do not put aside one file after the other.
            file.lock()?;
            if is_at(&file, &self.path) {
                std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
            }
            file = self.current()?;
        }
        file.write_all(line)?;
        self.open = Some(file);
        Ok(())
    }

    /// The file that bears the name now: another process may have put it aside.
    fn current(&mut self) -> io::Result<File> {
        match self.open.take().filter(|file| is_at(file, &self.path)) {
            Some(file) => Ok(file),
            None => open_private(&self.path),
        }
    }
}

impl Write for LogFile {
    /// Writes if it can: a full disk is no reason to stop, and the next line tries again.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.append(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

fn open_private(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn small(path: &Path) -> LogFile {
        LogFile {
            cap: 10,
            ..LogFile::new(path.to_owned())
        }
    }

    #[test]
    fn the_file_is_private_and_appended_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/hermes.log");
        LogFile::new(path.clone()).write_all(b"one\n").unwrap();
        LogFile::new(path.clone()).write_all(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_full_file_is_put_aside_and_one_old_one_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hermes.log");
        let mut log = small(&path);
        for line in ["first\n", "second\n", "third\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "third\n");
        let old = fs::read_to_string(directory.path().join("hermes.log.1")).unwrap();
        assert_eq!(old, "second\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_process_follows_when_another_has_put_the_file_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hermes.log");
        let (mut one, mut other) = (small(&path), small(&path));
        one.write_all(b"12345678\n").unwrap();
        other.write_all(b"full\n").unwrap();
        one.write_all(b"new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "full\nnew\n");
    }

    #[test]
    fn a_directory_that_can_not_be_written_stops_nobody() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("logs"), "in the way").unwrap();
        let mut log = LogFile::new(directory.path().join("logs/hermes.log"));
        assert!(log.write_all(b"line\n").is_ok());
    }
}
