//! Read-only access to a directory tree through a descriptor of its root, for shares and workspaces.

use std::{
    ffi::{CStr, CString},
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use jiff::Timestamp;
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, statat},
    io::Errno,
};

use super::{
    beneath::{DIRECTORY, Links, READ, open_beneath},
    faults,
    path::{TEMPORARY, segment_of},
};
use crate::{
    Problem,
    files::{EntryType, FileEntry, Listing, SharePath},
};

#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
}

impl Tree {
    /// Opens the root. The operator controls the path, so links are followed.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let root = open(path, DIRECTORY, Mode::empty())?;
        Ok(Self { root })
    }

    /// Opens a directory in the operator's parent directory. The tenant controls the name, so a link is refused: it
    /// could lead to files that the tenant may not read.
    pub(crate) fn open_in(parent: &Path, name: &str) -> Result<Self, Errno> {
        let parent = Self::open(parent)?;
        let root = open_beneath(&parent.root, name, DIRECTORY, Mode::empty(), Links::Refuse)?;
        Ok(Self { root })
    }

    pub(crate) fn into_root(self) -> OwnedFd {
        self.root
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Opens a directory of the tree.
    pub(crate) fn directory(&self, path: &SharePath, links: Links) -> Result<OwnedFd, Errno> {
        open_beneath(&self.root, path.as_str(), DIRECTORY, Mode::empty(), links)
    }

    /// Opens a regular file to read it.
    pub(crate) fn file(&self, path: &SharePath) -> Result<(File, Stat), Problem> {
        let opened = open_beneath(
            &self.root,
            path.as_str(),
            READ,
            Mode::empty(),
            Links::Follow,
        );
        let file = match opened {
            // For a client, a path through a file does not exist.
            Err(Errno::NOTDIR) => return Err(faults::missing(path)),
            other => other.map_err(|error| faults::problem(error, path))?,
        };
        let stat = fstat(&file).map_err(|error| faults::problem(error, path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((File::from(file), stat)),
            FileType::Directory => Err(faults::is_directory(path)),
            _ => Err(faults::special(path)),
        }
    }

    /// The entry at a path. A link is not followed.
    pub(crate) fn stat(&self, path: &SharePath) -> Result<FileEntry, Problem> {
        let stat = match path.split() {
            None => fstat(&self.root),
            Some((parent, name)) => self
                .directory(&parent, Links::Follow)
                .and_then(|parent| statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)),
        };
        let stat = match stat {
            Err(Errno::NOTDIR) => return Err(faults::missing(path)),
            other => other.map_err(|error| faults::problem(error, path))?,
        };
        entry(path.as_str().to_owned(), &stat).ok_or_else(|| faults::special(path))
    }

    /// One level: directories first, in byte order. Names that are not valid in a path are left out.
    pub(crate) fn list(&self, path: &SharePath, most: usize) -> Result<Listing, Problem> {
        let fault = |error| faults::problem(error, path);
        let directory = match self.directory(path, Links::Follow) {
            Err(Errno::NOTDIR) => {
                // Distinguishes a file from a path through a file.
                self.stat(path)?;
                return Err(faults::not_directory(path));
            }
            other => Dir::new(other.map_err(fault)?).map_err(fault)?,
        };
        let (directory, mut names) = names(directory).map_err(fault)?;
        names.retain(|name| name.kind.is_some() && name.text().is_some());
        names.sort_unstable_by(|a, b| {
            let is_file = |name: &Name| name.kind != Some(EntryType::Dir);
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
                entry(path.joined(name.text()?), &stat.ok()?)
            })
            .collect();
        Ok(Listing {
            path: path.as_str().to_owned(),
            entries,
            truncated,
        })
    }
}

/// Opens a subdirectory, refusing a link.
pub(crate) fn open_directory(
    directory: impl AsFd,
    name: impl rustix::path::Arg,
) -> Result<OwnedFd, Errno> {
    openat(directory, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
}

#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) name: CString,
    /// `None` for pipes, sockets and devices.
    pub(crate) kind: Option<EntryType>,
}

impl Name {
    /// The name as a segment of a path, if it is valid.
    pub(crate) fn text(&self) -> Option<&str> {
        segment_of(self.name.to_bytes())
    }

    /// Whether it is a temporary file of a write.
    pub(crate) fn is_temporary(&self) -> bool {
        self.name.to_bytes().starts_with(TEMPORARY.as_bytes())
    }
}

/// Reads all entries of a directory, unordered.
pub(crate) fn names(mut directory: Dir) -> Result<(Dir, Vec<Name>), Errno> {
    let mut names = Vec::new();
    while let Some(entry) = directory.read() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        names.push(Name {
            name: name.to_owned(),
            kind: match entry.file_type() {
                FileType::Unknown => kind_of(directory.fd()?, name)?,
                known => kind(known),
            },
        });
    }
    Ok((directory, names))
}

/// For file systems that do not report types in listings.
fn kind_of(directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<EntryType>, Errno> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(kind(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn kind(file_type: FileType) -> Option<EntryType> {
    match file_type {
        FileType::RegularFile => Some(EntryType::File),
        FileType::Directory => Some(EntryType::Dir),
        FileType::Symlink => Some(EntryType::Symlink),
        _ => None,
    }
}

/// The entry for clients; `None` for pipes, sockets and devices.
pub(crate) fn entry(path: String, stat: &Stat) -> Option<FileEntry> {
    let entry_type = kind(FileType::from_raw_mode(stat.st_mode))?;
    let is_file = entry_type == EntryType::File;
    Some(FileEntry {
        name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        entry_type,
        size: if is_file { size(stat) } else { 0 },
        modified_at: modified_at(stat),
        etag: is_file.then(|| etag(stat)),
        path,
    })
}

pub(crate) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// The version of a file: every write by the Hub gives it a new inode or a new modification time, which are never
/// reused.
pub(crate) fn etag(stat: &Stat) -> String {
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
