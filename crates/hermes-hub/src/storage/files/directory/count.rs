//! Counting the usage of a share, and removing temporary files of interrupted writes.

use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use hermes_config::beneath::{SymlinkPolicy, open_directory};
use rustix::{
    fs::{AtFlags, Dir, statat, unlinkat},
    io::Errno,
};

use super::SharedDirectory;
use crate::{
    Problem,
    storage::files::{EntryType, SharePath, Tree, TreeUsage, problems, tree},
};

impl SharedDirectory {
    /// The usage, counted if it never was.
    pub(super) fn usage(&self) -> Result<TreeUsage, Problem> {
        match self.quota.used() {
            Some(used) => Ok(used),
            None => self.recount(),
        }
    }

    pub(super) fn ensure_counted(&self) -> Result<(), Problem> {
        self.usage().map(|_| ())
    }

    /// Counts under the exclusive lock.
    pub(super) fn recount(&self) -> Result<TreeUsage, Problem> {
        let _structure = self.tree_lock.write();
        let root = SharePath::root();
        let used = self
            .tree
            .open_dir(&root, SymlinkPolicy::Refuse)
            .and_then(|root| count_tree(root, StaleTempFiles::Remove))
            .map_err(|error| problems::problem_from_errno(error, &root))?;
        self.quota.set_used(used);
        Ok(used)
    }
}

impl SharedDirectory {
    pub(super) fn remove_temp_files(&self, path: &SharePath) -> Result<(), Problem> {
        let _structure = self.tree_lock.write();
        let cleared = match self.tree.open_dir(path, SymlinkPolicy::Refuse) {
            // It was never created, or has been removed.
            Err(Errno::NOENT) => Ok(()),
            opened => opened.and_then(|directory| remove_temp_files(directory.as_fd(), None)),
        };
        cleared.map_err(|error| problems::problem_from_errno(error, path))
    }
}

/// Removes the temporary files in a directory, or those last written before a moment.
pub(crate) fn remove_temp_files(
    directory: BorrowedFd<'_>,
    before: Option<SystemTime>,
) -> Result<(), Errno> {
    let (_, entries) = tree::read_entries(Dir::read_from(directory)?)?;
    for name in entries {
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
pub(crate) fn remove_temp_files_below(directory: OwnedFd) -> Result<(), Errno> {
    count_tree(directory, StaleTempFiles::Remove).map(drop)
}

/// How temporary files of interrupted writes are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StaleTempFiles {
    Remove,
    /// Counted like any other file: their writer may still be running.
    Count,
}

/// The usage of a directory in which an agent may be working. Links are counted, not followed.
pub(crate) fn measure_directory(path: &Path) -> Result<TreeUsage, Errno> {
    count_tree(Tree::open(path)?.into_root(), StaleTempFiles::Count)
}

/// Counts everything below a directory, at any depth and under any name.
pub(super) fn count_tree(
    directory: OwnedFd,
    leftovers: StaleTempFiles,
) -> Result<TreeUsage, Errno> {
    let mut used = TreeUsage::default();
    // Only the directories along one path stay open, so that a wide tree needs few descriptors.
    let mut levels = vec![tree::read_entries(Dir::new(directory)?)?];
    while let Some((directory, names)) = levels.last_mut() {
        let Some(name) = names.pop() else {
            levels.pop();
            continue;
        };
        let descriptor = directory.fd()?;
        let is_leftover = name.is_temporary() && name.kind == Some(EntryType::File);
        if is_leftover && leftovers == StaleTempFiles::Remove {
            let _ = unlinkat(descriptor, name.name.as_c_str(), AtFlags::empty());
            continue;
        }
        used.files += 1;
        match name.kind {
            Some(EntryType::File) => {
                let stat = statat(descriptor, name.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
                used.bytes += stat.as_ref().map_or(0, tree::file_size);
            }
            Some(EntryType::Dir) => {
                if let Ok(below) = open_directory(descriptor, name.name.as_c_str()) {
                    levels.push(tree::read_entries(Dir::new(below)?)?);
                }
            }
            _ => {}
        }
    }
    Ok(used)
}
