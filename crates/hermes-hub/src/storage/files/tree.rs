//! Access to a directory tree through descriptors, for shares and workspaces: reading it, and deleting one without following
//! a link in it, whatever happens there meanwhile.

use std::{
    ffi::{CStr, CString},
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use hermes_config::beneath::{
    DIRECTORY_FLAGS, READ_FLAGS, SymlinkPolicy, open_beneath, open_directory,
};
use jiff::Timestamp;
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, Stat, fstat, open, statat, unlinkat},
    io::Errno,
};

use super::path::{TEMP_PREFIX, parse_segment};
use crate::{
    Problem,
    storage::files::{EntryType, FileEntry, Listing, SharePath, problems},
};

#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
}

impl Tree {
    /// Opens the root. The operator controls the path, so links are followed.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let root = open(path, DIRECTORY_FLAGS, Mode::empty())?;
        Ok(Self { root })
    }

    /// Opens a directory in the operator's parent directory. The tenant controls the name, so a link is refused: it
    /// could lead to files that the tenant may not read.
    pub(crate) fn open_in(parent: &Path, name: &str) -> Result<Self, Errno> {
        let parent = Self::open(parent)?;
        let root = open_beneath(
            &parent.root,
            name,
            DIRECTORY_FLAGS,
            Mode::empty(),
            SymlinkPolicy::Refuse,
        )?;
        Ok(Self { root })
    }

    pub(crate) fn into_root(self) -> OwnedFd {
        self.root
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Opens a directory of the tree.
    pub(crate) fn open_dir(
        &self,
        path: &SharePath,
        links: SymlinkPolicy,
    ) -> Result<OwnedFd, Errno> {
        open_beneath(
            &self.root,
            path.as_str(),
            DIRECTORY_FLAGS,
            Mode::empty(),
            links,
        )
    }

    /// Opens a regular file to read it.
    pub(crate) fn open_file(&self, path: &SharePath) -> Result<(File, Stat), Problem> {
        let opened = open_beneath(
            &self.root,
            path.as_str(),
            READ_FLAGS,
            Mode::empty(),
            SymlinkPolicy::Follow,
        );
        let file = match opened {
            // For a client, a path through a file does not exist.
            Err(Errno::NOTDIR) => return Err(problems::path_not_found(path)),
            other => other.map_err(|error| problems::problem_from_errno(error, path))?,
        };
        let stat = fstat(&file).map_err(|error| problems::problem_from_errno(error, path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((File::from(file), stat)),
            FileType::Directory => Err(problems::is_a_directory(path)),
            _ => Err(problems::special_file(path)),
        }
    }

    /// The entry at a path. A link is not followed.
    pub(crate) fn stat(&self, path: &SharePath) -> Result<FileEntry, Problem> {
        let stat = match path.split() {
            None => fstat(&self.root),
            Some((parent, name)) => self
                .open_dir(&parent, SymlinkPolicy::Follow)
                .and_then(|parent| statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)),
        };
        let stat = match stat {
            Err(Errno::NOTDIR) => return Err(problems::path_not_found(path)),
            other => other.map_err(|error| problems::problem_from_errno(error, path))?,
        };
        file_entry(path.as_str().to_owned(), &stat).ok_or_else(|| problems::special_file(path))
    }

    /// One level: directories first, in byte order. Names that are not valid in a path are left out.
    pub(crate) fn list(&self, path: &SharePath, most: usize) -> Result<Listing, Problem> {
        let fault = |error| problems::problem_from_errno(error, path);
        let directory = match self.open_dir(path, SymlinkPolicy::Follow) {
            Err(Errno::NOTDIR) => {
                // Distinguishes a file from a path through a file.
                self.stat(path)?;
                return Err(problems::not_a_directory(path));
            }
            other => Dir::new(other.map_err(fault)?).map_err(fault)?,
        };
        let (directory, mut names) = read_entries(directory).map_err(fault)?;
        names.retain(|name| name.kind.is_some() && name.text().is_some());
        names.sort_unstable_by(|a, b| {
            let is_file = |name: &DirectoryEntry| name.kind != Some(EntryType::Dir);
            (is_file(a), &a.name).cmp(&(is_file(b), &b.name))
        });
        let truncated = names.len() > most;
        names.truncate(most);
        let directory = directory.fd().map_err(fault)?;
        let entries = names
            .iter()
            .filter_map(|name| {
                let stat = statat(directory, name.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
                // Entries removed since are left out.
                file_entry(path.join(name.text()?), &stat.ok()?)
            })
            .collect();
        Ok(Listing {
            path: path.as_str().to_owned(),
            entries,
            truncated,
        })
    }
}

#[derive(Debug)]
pub(crate) struct DirectoryEntry {
    pub(crate) name: CString,
    /// `None` for pipes, sockets and devices.
    pub(crate) kind: Option<EntryType>,
}

impl DirectoryEntry {
    /// The name as a segment of a path, if it is valid.
    pub(crate) fn text(&self) -> Option<&str> {
        parse_segment(self.name.to_bytes())
    }

    /// Whether it is a temporary file of a write.
    pub(crate) fn is_temporary(&self) -> bool {
        self.name.to_bytes().starts_with(TEMP_PREFIX.as_bytes())
    }
}

/// Reads all entries of a directory, unordered.
pub(crate) fn read_entries(mut directory: Dir) -> Result<(Dir, Vec<DirectoryEntry>), Errno> {
    let mut names = Vec::new();
    while let Some(entry) = directory.read() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        names.push(DirectoryEntry {
            name: name.to_owned(),
            kind: match entry.file_type() {
                FileType::Unknown => stat_entry_type(directory.fd()?, name)?,
                known => entry_type(known),
            },
        });
    }
    Ok((directory, names))
}

/// For file systems that do not report types in listings.
fn stat_entry_type(directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<EntryType>, Errno> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(entry_type(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn entry_type(file_type: FileType) -> Option<EntryType> {
    match file_type {
        FileType::RegularFile => Some(EntryType::File),
        FileType::Directory => Some(EntryType::Dir),
        FileType::Symlink => Some(EntryType::Symlink),
        _ => None,
    }
}

/// The entry for clients; `None` for pipes, sockets and devices.
pub(crate) fn file_entry(path: String, stat: &Stat) -> Option<FileEntry> {
    let entry_type = entry_type(FileType::from_raw_mode(stat.st_mode))?;
    let is_file = entry_type == EntryType::File;
    Some(FileEntry {
        name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        entry_type,
        size: if is_file { file_size(stat) } else { 0 },
        modified_at: modified_at(stat),
        etag: is_file.then(|| file_etag(stat)),
        path,
    })
}

pub(crate) fn file_size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// The version of a file: every write by the Hub gives it a new inode or a new modification time, which are never
/// reused.
pub(crate) fn file_etag(stat: &Stat) -> String {
    format!(
        "\"{:x}-{:x}-{:x}.{:x}-{:x}.{:x}\"",
        stat.st_ino,
        stat.st_size,
        stat.st_mtime,
        stat.st_mtime_nsec,
        stat.st_ctime,
        stat.st_ctime_nsec
    )
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_possible_wrap,
    clippy::useless_conversion,
    reason = "the fields have other types on other systems"
)]
fn modified_at(stat: &Stat) -> String {
    let nanoseconds = i32::try_from(stat.st_mtime_nsec as i64).unwrap_or(0);
    Timestamp::new(i64::from(stat.st_mtime), nanoseconds)
        .unwrap_or_default()
        .to_string()
}

/// Deeper than anything that an agent creates.
const MAX_DEPTH: usize = 64;

/// Deletes a file, a link, or a directory with its contents.
pub(super) fn delete_tree(directory: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    delete_level(directory, name, 0)
}

fn delete_level(directory: BorrowedFd<'_>, name: &CStr, depth: usize) -> Result<(), Errno> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return unlinkat(directory, name, AtFlags::empty());
    }
    if depth > MAX_DEPTH {
        return Err(Errno::NAMETOOLONG);
    }
    let inside = open_directory(directory, name)?;
    let (_, below) = read_entries(Dir::read_from(&inside)?)?;
    for entry in below {
        match delete_level(inside.as_fd(), &entry.name, depth + 1) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    unlinkat(directory, name, AtFlags::REMOVEDIR)
}
