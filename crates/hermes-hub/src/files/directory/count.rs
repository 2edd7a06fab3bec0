//! Counting the usage of a share, and removing temporary files of interrupted writes.

use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::PoisonError,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{AtFlags, Dir, statat, unlinkat},
    io::Errno,
};

use super::Share;
use crate::{
    Problem,
    files::{EntryType, SharePath, Tree, Used, beneath::Links, faults, tree},
};

impl Share {
    /// The usage, counted if it never was.
    pub(super) fn used(&self) -> Result<Used, Problem> {
        match self.quota.used() {
            Some(used) => Ok(used),
            None => self.recount(),
        }
    }

    pub(super) fn ensure_counted(&self) -> Result<(), Problem> {
        self.used().map(|_| ())
    }

    /// Counts under the exclusive lock.
    pub(super) fn recount(&self) -> Result<Used, Problem> {
        let _structure = self
            .structure
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let root = SharePath::root();
        let used = self
            .tree
            .directory(&root, Links::Refuse)
            .and_then(|root| count(root, Leftovers::Remove))
            .map_err(|error| faults::problem(error, &root))?;
        self.quota.set_used(used);
        Ok(used)
    }
}

impl Share {
    pub(super) fn clear_drafts(&self, path: &SharePath) -> Result<(), Problem> {
        let _structure = self
            .structure
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let cleared = match self.tree.directory(path, Links::Refuse) {
            // It was never created, or has been removed.
            Err(Errno::NOENT) => Ok(()),
            opened => opened.and_then(|directory| clear(directory.as_fd(), None)),
        };
        cleared.map_err(|error| faults::problem(error, path))
    }
}

/// Removes the temporary files in a directory, or those last written before a moment.
pub(crate) fn clear(directory: BorrowedFd<'_>, before: Option<SystemTime>) -> Result<(), Errno> {
    let (_, found) = tree::names(Dir::read_from(directory)?)?;
    for name in found {
        let is_draft = name.is_temporary() && name.kind == Some(EntryType::File);
        if is_draft && before.is_none_or(|before| is_older(directory, &name.name, before)) {
            unlinkat(directory, name.name.as_c_str(), AtFlags::empty())?;
        }
    }
    Ok(())
}

fn is_older(directory: BorrowedFd<'_>, name: &CStr, than: SystemTime) -> bool {
    let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return false;
    };
    let than = than.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(stat.st_mtime).is_ok_and(|written| written < than.as_secs())
}

/// Removes all temporary files below a directory, at any depth.
pub(crate) fn clear_below(directory: OwnedFd) -> Result<(), Errno> {
    count(directory, Leftovers::Remove).map(drop)
}

/// How temporary files of interrupted writes are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leftovers {
    Remove,
    /// Counted like any other file: their writer may still be running.
    Count,
}

/// The usage of a directory in which an agent may be working. Links are counted, not followed.
pub(crate) fn measure(path: &Path) -> Result<Used, Errno> {
    count(Tree::open(path)?.into_root(), Leftovers::Count)
}

/// Counts everything below a directory, at any depth and under any name.
pub(super) fn count(directory: OwnedFd, leftovers: Leftovers) -> Result<Used, Errno> {
    let mut used = Used::default();
    // Only the directories along one path stay open, so that a wide tree needs few descriptors.
    let mut levels = vec![tree::names(Dir::new(directory)?)?];
    while let Some((directory, names)) = levels.last_mut() {
        let Some(name) = names.pop() else {
            levels.pop();
            continue;
        };
        let descriptor = directory.fd()?;
        let is_leftover = name.is_temporary() && name.kind == Some(EntryType::File);
        if is_leftover && leftovers == Leftovers::Remove {
            let _ = unlinkat(descriptor, name.name.as_c_str(), AtFlags::empty());
            continue;
        }
        used.files += 1;
        match name.kind {
            Some(EntryType::File) => {
                let stat = statat(descriptor, name.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
                used.bytes += stat.as_ref().map_or(0, tree::size);
            }
            Some(EntryType::Dir) => {
                if let Ok(below) = tree::open_directory(descriptor, name.name.as_c_str()) {
                    levels.push(tree::names(Dir::new(below)?)?);
                }
            }
            _ => {}
        }
    }
    Ok(used)
}
