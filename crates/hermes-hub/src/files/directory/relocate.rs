//! Moving files and directories within a share.

use std::{os::fd::OwnedFd, sync::PoisonError};

use rustix::{
    fs::{AtFlags, FileType, RenameFlags, fsync, renameat_with, statat},
    io::Errno,
};

use super::{Share, atomic::make_directories};
use crate::{
    Problem,
    files::{FileEntry, IfMatch, SharePath, Used, beneath::Links, faults, tree},
};

impl Share {
    /// Moves something to a path that does not exist, creating parent directories.
    pub(super) fn relocate(
        &self,
        from: &SharePath,
        to: &SharePath,
        condition: Option<&IfMatch>,
    ) -> Result<FileEntry, Problem> {
        let (Some((source, name)), Some((target, new_name))) = (from.split(), to.split()) else {
            return Err(Problem::invalid("the root is neither moved nor replaced")
                .at("from", "the root stays where it is"));
        };
        if to.is_within(from) && to != from {
            return Err(
                Problem::invalid(format!("`{from}` cannot be moved into itself"))
                    .at("to", "lies within `from`"),
            );
        }
        let _structure = self
            .structure
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let source = match self.tree.directory(&source, Links::Refuse) {
            Err(Errno::NOTDIR) => return Err(faults::missing(from)),
            other => other.map_err(Self::fault(from))?,
        };
        let stat = statat(&source, name, AtFlags::SYMLINK_NOFOLLOW).map_err(Self::fault(from))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Directory => {}
            FileType::Symlink => return Err(faults::link(from)),
            _ => return Err(faults::special(from)),
        }
        if let Some(condition) = condition {
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            condition.check(is_file.then(|| tree::etag(&stat)).as_deref())?;
        }
        let target = self.ensure_directory(&target, to)?;
        renameat_with(&source, name, &target, new_name, RenameFlags::NOREPLACE)
            .map_err(Self::fault(to))?;
        fsync(&target).map_err(Self::fault(to))?;
        fsync(&source).map_err(Self::fault(from))?;
        let stat = statat(&target, new_name, AtFlags::SYMLINK_NOFOLLOW).map_err(Self::fault(to))?;
        tree::entry(to.as_str().to_owned(), &stat).ok_or_else(|| faults::special(to))
    }

    /// Opens a directory, created with its parents if missing. New ones count for the quota.
    fn ensure_directory(&self, path: &SharePath, to: &SharePath) -> Result<OwnedFd, Problem> {
        let (directory, missing) = self.nearest(path)?;
        if missing.is_empty() {
            return Ok(directory);
        }
        let need = Used {
            bytes: 0,
            files: missing.len() as u64,
        };
        let room = self.quota.reserve(need, self.limits().allowance)?;
        let mut files = 0;
        let made = make_directories(directory, &missing, &mut files);
        room.settle(Used { bytes: 0, files }, Used::default());
        made.map_err(Self::fault(to))
    }
}
