//! Moving files and directories within a share.

use std::os::fd::OwnedFd;

use hermes_config::beneath::SymlinkPolicy;
use rustix::{
    fs::{AtFlags, FileType, RenameFlags, fsync, renameat_with, statat},
    io::Errno,
};

use super::{SharedDirectory, write::make_directories};
use crate::{
    Problem,
    storage::files::{FileEntry, IfMatch, SharePath, TreeUsage, problems, tree},
};

impl SharedDirectory {
    /// Moves something to a path that does not exist, creating parent directories.
    pub(super) fn relocate(
        &self,
        from: &SharePath,
        to: &SharePath,
        condition: Option<&IfMatch>,
    ) -> Result<FileEntry, Problem> {
        let (Some((source, name)), Some((target, new_name))) = (from.split(), to.split()) else {
            return Err(problems::root_not_moved());
        };
        if to.is_within(from) && to != from {
            return Err(problems::moved_into_itself(from));
        }
        let _structure = self.tree_lock.write();
        let source = match self.tree.open_dir(&source, SymlinkPolicy::Refuse) {
            Err(Errno::NOTDIR) => return Err(problems::path_not_found(from)),
            other => other.map_err(Self::problem_for(from))?,
        };
        let stat =
            statat(&source, name, AtFlags::SYMLINK_NOFOLLOW).map_err(Self::problem_for(from))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Directory => {}
            FileType::Symlink => return Err(problems::symlink_not_followed(from)),
            _ => return Err(problems::special_file(from)),
        }
        if let Some(condition) = condition {
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            condition.check(is_file.then(|| tree::file_etag(&stat)).as_deref())?;
        }
        let target = self.ensure_directory(&target, to)?;
        renameat_with(&source, name, &target, new_name, RenameFlags::NOREPLACE)
            .map_err(Self::problem_for(to))?;
        fsync(&target).map_err(Self::problem_for(to))?;
        fsync(&source).map_err(Self::problem_for(from))?;
        let stat =
            statat(&target, new_name, AtFlags::SYMLINK_NOFOLLOW).map_err(Self::problem_for(to))?;
        tree::file_entry(to.as_str().to_owned(), &stat).ok_or_else(|| problems::special_file(to))
    }

    /// Opens a directory, created with its parents if missing. New ones count for the quota.
    pub(super) fn ensure_directory(
        &self,
        path: &SharePath,
        to: &SharePath,
    ) -> Result<OwnedFd, Problem> {
        let (directory, missing) = self.nearest_existing(path)?;
        if missing.is_empty() {
            return Ok(directory);
        }
        let need = TreeUsage {
            bytes: 0,
            files: missing.len() as u64,
        };
        let room = self.quota.reserve(need, self.limits().quota)?;
        let mut files = 0;
        let made = make_directories(directory, &missing, &mut files);
        room.commit(TreeUsage { bytes: 0, files }, TreeUsage::default());
        made.map_err(Self::problem_for(to))
    }
}
