//! Removing: anything with content goes to the trash, the rest is deleted; and emptying the trash.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use hermes_config::beneath::{SymlinkPolicy, open_directory};
use jiff::Timestamp;
use rustix::{
    fs::{AtFlags, Dir, FileType, RenameFlags, fsync, renameat_with, statat, unlinkat},
    io::Errno,
};

use super::{SharedDirectory, count, restore::is_origin};
use crate::{
    Problem,
    storage::files::{
        IfMatch, RemoveMode, SharePath, TreeUsage, problems,
        tree::{self, delete_tree},
    },
};

impl SharedDirectory {
    /// Removes what is at a path.
    pub(super) fn remove(
        &self,
        path: &SharePath,
        removal: RemoveMode,
        condition: Option<&IfMatch>,
    ) -> Result<(), Problem> {
        let Some((parent, name)) = path.split() else {
            return Err(problems::root_not_removed());
        };
        self.ensure_counted()?;
        let structure = self.tree_lock.write();
        let parent = match self.tree.open_dir(&parent, SymlinkPolicy::Refuse) {
            Err(Errno::NOTDIR) => return Err(problems::path_not_found(path)),
            other => other.map_err(Self::problem_for(path))?,
        };
        let stat =
            statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(Self::problem_for(path))?;
        let file_type = FileType::from_raw_mode(stat.st_mode);
        if let Some(condition) = condition {
            let is_file = file_type == FileType::RegularFile;
            condition.check(is_file.then(|| tree::file_etag(&stat)).as_deref())?;
        }
        let one = TreeUsage { bytes: 0, files: 1 };
        match file_type {
            FileType::Symlink => {
                unlinkat(&parent, name, AtFlags::empty()).map_err(Self::problem_for(path))?;
                self.quota.release(one);
            }
            FileType::RegularFile => {
                self.discard_file(&parent, name, path)?;
                self.quota.release(TreeUsage {
                    bytes: tree::file_size(&stat),
                    ..one
                });
            }
            FileType::Directory => match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                Ok(()) => self.quota.release(one),
                Err(Errno::NOTEMPTY | Errno::EXIST) => {
                    if removal == RemoveMode::Single {
                        return Err(self.not_empty(path));
                    }
                    let Some(trash) = &self.trash else {
                        self.delete_tree(&parent, name, path)?;
                        return fsync(&parent).map_err(Self::problem_for(path));
                    };
                    let discarded = self.move_to_trash(trash, &parent, name, path)?;
                    let counts = self.quota.recounts();
                    // Nobody can write to it in the trash, so counting needs no lock.
                    drop(structure);
                    let below = self.trashed_usage(&discarded);
                    let freed = TreeUsage {
                        bytes: below.bytes,
                        files: below.files + 1,
                    };
                    self.quota.release_unless_recounted(freed, counts);
                }
                Err(error) => return Err(problems::problem_from_errno(error, path)),
            },
            _ => return Err(problems::special_file(path)),
        }
        fsync(&parent).map_err(Self::problem_for(path))
    }

    fn discard_file(&self, parent: &OwnedFd, name: &str, path: &SharePath) -> Result<(), Problem> {
        match &self.trash {
            Some(trash) => self.move_to_trash(trash, parent, name, path).map(drop),
            None => unlinkat(parent, name, AtFlags::empty()).map_err(Self::problem_for(path)),
        }
    }

    /// Deletes a directory with its contents. Links in it are not followed.
    fn delete_tree(&self, parent: &OwnedFd, name: &str, path: &SharePath) -> Result<(), Problem> {
        let counted = open_directory(parent, name)
            .and_then(|directory| count::count_tree(directory, count::StaleTempFiles::Count))
            .unwrap_or_default();
        let entry = CString::new(name).map_err(|error| Problem::internal(&error))?;
        delete_tree(parent.as_fd(), &entry).map_err(Self::problem_for(path))?;
        self.quota.release(TreeUsage {
            bytes: counted.bytes,
            files: counted.files + 1,
        });
        Ok(())
    }

    /// Moves something to the trash, under a name that starts with the time.
    fn move_to_trash(
        &self,
        trash: &OwnedFd,
        parent: &OwnedFd,
        name: &str,
        path: &SharePath,
    ) -> Result<String, Problem> {
        let random =
            hermes_config::random::random_hex::<8>().map_err(|error| Problem::internal(&error))?;
        let discarded = format!("{}-{random}", Timestamp::now().as_millisecond());
        self.write_origin(trash, &discarded, path)?;
        renameat_with(
            parent,
            name,
            trash,
            discarded.as_str(),
            RenameFlags::NOREPLACE,
        )
        .map_err(|error| {
            self.forget_origin(trash, &discarded);
            match error {
                Errno::NOSPC | Errno::DQUOT => problems::problem_from_errno(error, path),
                other => {
                    Problem::internal(&format_args!("`{path}` cannot go to the trash: {other}"))
                }
            }
        })?;
        fsync(trash).map_err(Self::problem_for(path))?;
        Ok(discarded)
    }

    fn trashed_usage(&self, name: &str) -> TreeUsage {
        let Some(trash) = &self.trash else {
            return TreeUsage::default();
        };
        open_directory(trash, name)
            .and_then(|discarded| count::count_tree(discarded, count::StaleTempFiles::Remove))
            .unwrap_or_default()
    }

    fn not_empty(&self, path: &SharePath) -> Problem {
        let entries = self
            .tree
            .open_dir(path, SymlinkPolicy::Refuse)
            .and_then(Dir::new)
            .and_then(tree::read_entries)
            .map_or(0, |(_, names)| names.len() as u64);
        problems::not_empty(path, entries)
    }
}

/// Deletes what was moved to the trash before a time, and returns how many entries that was. Blocking.
pub fn empty_trash(trash: &Path, before: Timestamp) -> io::Result<u64> {
    let mut removed = 0;
    for entry in fs::read_dir(trash)? {
        let entry = entry?;
        let name = entry.file_name();
        let time: Option<i64> = name
            .to_str()
            .and_then(|name| name.split_once('-'))
            .and_then(|(time, _)| time.parse().ok());
        // Files that the Hub did not put there are kept.
        let Some(time) = time else { continue };
        if time >= before.as_millisecond() {
            continue;
        }
        // Neither call follows links.
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
        removed += u64::from(!name.to_str().is_some_and(is_origin));
    }
    Ok(removed)
}
