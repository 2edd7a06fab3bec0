//! The log file: private, appended to by several hosts, never above its cap, one old one kept.

use std::{
    fs::{File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::manifest::create_private_directory;

/// The size at which a new file is begun.
pub(super) const FILE_CAP: u64 = 10 * 1024 * 1024;

/// A log file that is opened at the first line.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    open: Option<File>,
}

impl Clone for LogFile {
    fn clone(&self) -> Self {
        Self::new(self.path.clone())
    }
}

impl LogFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// Writes if it can. There is nobody to tell about a full disk, and the next batch tries again.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if self.try_append(bytes).is_err() {
            self.open = None;
        }
    }

    fn try_append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.current()?;
        if file.metadata()?.len() + bytes.len() as u64 > FILE_CAP {
            self.rotate()?;
            file = self.current()?;
        }
        file.write_all(bytes)
    }

    /// The file that bears the name now: another host may have put it aside.
    fn current(&mut self) -> io::Result<&File> {
        let open = self.open.take().filter(|file| is_at(file, &self.path));
        let file = match open {
            Some(file) => file,
            None => open_private(&self.path)?,
        };
        Ok(self.open.insert(file))
    }

    /// Puts the file aside, under a lock so that two hosts do not do it one after the other.
    fn rotate(&mut self) -> io::Result<()> {
        let Some(file) = self.open.take() else {
            return Ok(());
        };
        file.lock()?;
        if is_at(&file, &self.path) && file.metadata()?.len() > 0 {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
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
        create_private_directory(directory)?;
    }
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}
