//! Databases in homes, opened while agents use them. Agents may replace them at any moment, while SQLite opens files by
//! path only. So a database is hard-linked into the Hub's own directory and opened there: it is the same file with the
//! same locks, and nobody can replace it by a symlink.

use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use hermes_config::beneath::{DIRECTORY_FLAGS, open_directory};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, linkat, open, statat},
    io::Errno,
    path::Arg,
};

/// The files of a SQLite database.
const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Opens the parent directory of a path below the root, refusing links.
pub(crate) fn open_parent(root: &Path, path: &Path) -> Result<OwnedFd, Errno> {
    let mut directory = open(root, DIRECTORY_FLAGS, Mode::empty())?;
    for parent in path.parent().into_iter().flatten() {
        directory = open_directory(&directory, parent)?;
    }
    Ok(directory)
}

/// A database hard-linked into the Hub's directory.
#[derive(Debug)]
pub(crate) struct LinkedDatabase {
    /// Its directory in the home.
    home: OwnedFd,
    name: std::ffi::OsString,
    link_path: PathBuf,
}

impl LinkedDatabase {
    /// Links the database at a path below the root.
    pub(crate) fn new(root: &Path, path: &Path, second: PathBuf) -> io::Result<Self> {
        let linked = Self {
            home: open_parent(root, path)?,
            name: path.file_name().unwrap_or_default().to_owned(),
            link_path: second,
        };
        for suffix in SUFFIXES {
            let (from, to) = (linked.name_in_home(suffix), linked.linked_path(suffix));
            match linkat(&linked.home, &from, CWD, &to, AtFlags::empty()) {
                Err(Errno::NOENT) if !suffix.is_empty() => continue,
                made => made?,
            }
            // `linkat` does not follow a symlink but links it.
            if !fs::symlink_metadata(&to)?.is_file() {
                return Err(io::Error::other("it is not a regular file"));
            }
        }
        Ok(linked)
    }

    fn name_in_home(&self, suffix: &str) -> std::ffi::OsString {
        let mut name = self.name.clone();
        name.push(suffix);
        name
    }

    fn linked_path(&self, suffix: &str) -> PathBuf {
        let mut path = self.link_path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.link_path
    }

    /// Whether database and log are still the linked files. The locks of a log created since would not be seen here.
    pub(crate) fn is_unchanged(&self) -> bool {
        ["", "-wal", "-journal"].iter().all(|suffix| {
            let there = file_identity(&self.home, self.name_in_home(suffix));
            let here = fs::symlink_metadata(self.linked_path(suffix)).ok();
            let here = here.map(|metadata| (metadata.dev(), metadata.ino()));
            // SQLite creates an empty log for a reader if there is none.
            there == here || there.is_none() && *suffix == "-wal"
        })
    }
}

impl Drop for LinkedDatabase {
    fn drop(&mut self) {
        for suffix in SUFFIXES {
            let _ = fs::remove_file(self.linked_path(suffix));
        }
    }
}

/// Device and inode of a file, if it exists.
fn file_identity(directory: impl AsFd, name: impl Arg) -> Option<(u64, u64)> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
    is_file.then_some((stat.st_dev, stat.st_ino))
}
