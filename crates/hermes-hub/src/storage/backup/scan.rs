//! Finds the files of a backup. Tenants work in their homes at the same time and may replace anything by links or
//! pipes, so everything is opened relative to its directory, and no link is followed.

use std::{
    ffi::{CStr, OsStr},
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use hermes_config::beneath::{DIRECTORY_FLAGS, READ_FLAGS, open_directory};
use rustix::{
    fs::{Dir, Mode, OFlags, open, openat},
    io::Errno,
    path::Arg,
};
use tokio::task::spawn_blocking;

use super::{BackupError, KeyInBackup, SECRET_FILES, SINGLE_FILES, TREES, file_error};
use crate::storage::{
    files::{EntryType, read_entries},
    linked_database::open_parent,
};

const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Deeper than anything that people and agents create. Each level uses a descriptor.
const MAX_DEPTH: usize = 200;

#[derive(Debug, Default)]
pub(super) struct BackupScan {
    pub(super) files: Vec<FoundFile>,
    pub(super) unreadable: Vec<PathBuf>,
}

#[derive(Debug)]
pub(super) struct FoundFile {
    /// Relative to the data directory.
    pub(super) path: PathBuf,
    pub(super) is_database: bool,
}

/// Finds everything but the Hub's own database.
pub(super) async fn scan_data_dir(
    root: PathBuf,
    key: KeyInBackup,
) -> Result<BackupScan, BackupError> {
    let walk = move || {
        let mut names = SINGLE_FILES.to_vec();
        if key == KeyInBackup::With {
            names.extend(SECRET_FILES);
        }
        let mut findings = BackupScan::default();
        for name in names {
            if root.join(name).is_file() {
                findings.add(name.into(), false);
            }
        }
        let directory = open(&root, DIRECTORY_FLAGS, Mode::empty());
        let directory = directory.map_err(|error| file_error(&root)(error.into()))?;
        for tree in TREES {
            let walked = match open_directory(&directory, tree) {
                Ok(tree_directory) => findings.walk(tree_directory, Path::new(tree), 0),
                Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(error),
            };
            walked.map_err(|error| file_error(&root.join(tree))(error.into()))?;
        }
        Ok(findings)
    };
    spawn_blocking(walk)
        .await
        .map_err(|_| BackupError::Interrupted)?
}

impl BackupScan {
    fn add(&mut self, path: PathBuf, is_database: bool) {
        self.files.push(FoundFile { path, is_database });
    }

    fn walk(&mut self, directory: OwnedFd, below: &Path, depth: usize) -> Result<(), Errno> {
        let (directory, entries) = read_entries(Dir::new(directory)?)?;
        let directory = directory.fd()?;
        self.add(below.to_owned(), false);
        for name in entries {
            let path = below.join(OsStr::from_bytes(name.name.as_bytes()));
            match name.kind {
                Some(EntryType::Dir) if depth < MAX_DEPTH => {
                    match open_directory(directory, name.name.as_c_str()) {
                        Ok(inside) => self.walk(inside, &path, depth + 1)?,
                        Err(error) => self.skip_unreadable(path, error)?,
                    }
                }
                Some(EntryType::Dir) => self.unreadable.push(path),
                Some(EntryType::File) if is_log_of_database(directory, &name.name) => {}
                Some(EntryType::File) => self.add(path, is_database(directory, &*name.name)),
                Some(EntryType::Symlink) => self.add(path, false),
                None => {}
            }
        }
        Ok(())
    }

    /// Skips a directory that cannot be opened.
    fn skip_unreadable(&mut self, path: PathBuf, error: Errno) -> Result<(), Errno> {
        match error {
            // Removed or replaced since it was listed.
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Ok(()),
            Errno::ACCESS | Errno::PERM => {
                self.unreadable.push(path);
                Ok(())
            }
            error => Err(error),
        }
    }
}

/// Opens a file below a directory for reading, refusing links. Does not block on a pipe.
pub(super) fn open_below(root: &Path, path: &Path) -> io::Result<File> {
    let directory = open_parent(root, path)?;
    let name = path.file_name().unwrap_or_default();
    Ok(open_plain(&directory, name)?.into())
}

fn open_plain(directory: impl AsFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    openat(
        directory,
        name,
        READ_FLAGS | OFlags::NOFOLLOW,
        Mode::empty(),
    )
}

fn is_database(directory: impl AsFd, name: impl Arg) -> bool {
    let mut start = [0; 16];
    open_plain(directory, name).is_ok_and(|file| {
        let mut file = File::from(file);
        file.metadata().is_ok_and(|metadata| metadata.is_file())
            && file.read_exact(&mut start).is_ok()
            && start == *SQLITE_MAGIC
    })
}

/// Whether a file is a log of a database, which is part of its copy already.
fn is_log_of_database(directory: impl AsFd, name: &CStr) -> bool {
    [b"-wal".as_slice(), b"-shm", b"-journal"]
        .iter()
        .any(|suffix| {
            name.to_bytes()
                .strip_suffix(*suffix)
                .is_some_and(|database| is_database(directory.as_fd(), database))
        })
}
