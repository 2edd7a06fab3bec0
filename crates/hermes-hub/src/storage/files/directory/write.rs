//! Writing files and making directories.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, OwnedFd},
};

use hermes_config::beneath::{SymlinkPolicy, open_beneath};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, fsync, ftruncate, statat},
    io::Errno,
};

use super::{
    SharedDirectory,
    atomic::{FILE_MODE, create_temp_file, make_directories, persist, set_unique_mtime},
};
use crate::{
    Problem, ProblemCode,
    storage::files::{
        CreateOutcome, FileEntry, IfMatch, SharePath, TreeUsage, WriteMode, WrittenFile, problems,
        tree,
    },
};

impl SharedDirectory {
    pub(super) fn write(
        &self,
        path: &SharePath,
        content: &[u8],
        mode: WriteMode,
        condition: Option<&IfMatch>,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        let limits = self.limits();
        if content.len() > limits.write_bytes {
            return Err(Problem::new(
                ProblemCode::PayloadTooLarge,
                format!(
                    "a write has at most {} bytes, and this has {}: append the rest afterwards",
                    limits.write_bytes,
                    content.len()
                ),
            ));
        }
        self.ensure_counted()?;
        let _structure = self.tree_lock.read();
        let _path = self.path_locks.lock(path);

        self.write_locked(path, content, mode, condition)
    }

    /// Writes a file under its path lock.
    fn write_locked(
        &self,
        path: &SharePath,
        content: &[u8],
        mode: WriteMode,
        condition: Option<&IfMatch>,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        let Some((parent, name)) = path.split() else {
            return Err(problems::is_a_directory(path));
        };
        let (directory, missing) = self.nearest_existing(&parent)?;
        let before = if missing.is_empty() {
            find_writable(&directory, name, path)?
        } else {
            None
        };
        if let Some(condition) = condition {
            condition.check(before.as_ref().map(tree::file_etag).as_deref())?;
        }
        let length = content.len() as u64;
        let old_length = before.as_ref().map_or(0, tree::file_size);
        let need = TreeUsage {
            bytes: match mode {
                WriteMode::Overwrite => length.saturating_sub(old_length),
                WriteMode::Append => length,
            },
            files: missing.len() as u64 + u64::from(before.is_none()),
        };
        let room = self.quota.reserve(need, self.limits().quota)?;
        let mut new_directories = 0;
        let written = make_directories(directory, &missing, &mut new_directories)
            .map_err(Self::problem_for(path))
            .and_then(|directory| {
                match mode {
                    WriteMode::Overwrite => overwrite(&directory, name, content),
                    WriteMode::Append => append(&directory, name, content, before.is_some()),
                }
                .map_err(|error| problems::problem_from_io(&error, path))
            });
        // New directories stay and count, even if the file is not written.
        let mut added = TreeUsage {
            bytes: 0,
            files: new_directories,
        };
        let mut gone = TreeUsage::default();
        if let Ok(stat) = &written {
            added.bytes = tree::file_size(stat);
            added.files += u64::from(before.is_none());
            gone.bytes = old_length;
        }
        room.commit(added, gone);
        let entry = tree::file_entry(path.as_str().to_owned(), &written?)
            .ok_or_else(|| problems::special_file(path))?;
        let written = WrittenFile {
            entry,
            bytes_written: length,
        };
        Ok(match before {
            None => (CreateOutcome::Created, written),
            Some(_) => (CreateOutcome::Replaced, written),
        })
    }

    pub(super) fn make_dir(&self, path: &SharePath) -> Result<(CreateOutcome, FileEntry), Problem> {
        self.ensure_counted()?;
        let _structure = self.tree_lock.read();
        let (directory, missing) = self.nearest_existing(path)?;
        let need = TreeUsage {
            bytes: 0,
            files: missing.len() as u64,
        };
        let room = self.quota.reserve(need, self.limits().quota)?;
        let mut made = 0;
        let directory = make_directories(directory, &missing, &mut made);
        let added = TreeUsage {
            bytes: 0,
            files: made,
        };
        room.commit(added, TreeUsage::default());
        let stat = directory.and_then(fstat).map_err(Self::problem_for(path))?;
        let placed = if made == 0 {
            CreateOutcome::Replaced
        } else {
            CreateOutcome::Created
        };
        let entry = tree::file_entry(path.as_str().to_owned(), &stat)
            .ok_or_else(|| problems::special_file(path))?;
        Ok((placed, entry))
    }

    /// The deepest existing directory of a path, and the missing names below it.
    pub(super) fn nearest_existing<'p>(
        &self,
        path: &'p SharePath,
    ) -> Result<(OwnedFd, Vec<&'p str>), Problem> {
        let mut missing = Vec::new();
        let mut there = path.clone();
        let mut names = path.segments().rev();
        loop {
            match self.tree.open_dir(&there, SymlinkPolicy::Refuse) {
                Ok(directory) => {
                    missing.reverse();
                    return Ok((directory, missing));
                }
                Err(Errno::NOENT) => {}
                Err(error) => return Err(problems::problem_from_errno(error, path)),
            }
            match (there.split(), names.next()) {
                (Some((parent, _)), Some(name)) => {
                    missing.push(name);
                    there = parent;
                }
                _ => return Err(Problem::internal(&"the root of a share is missing")),
            }
        }
    }
}

/// The existing file at a path, if it may be written.
fn find_writable(
    directory: &OwnedFd,
    name: &str,
    path: &SharePath,
) -> Result<Option<Stat>, Problem> {
    let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(problems::problem_from_errno(error, path)),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_nlink > 1 => Err(problems::hard_linked(path)),
        FileType::RegularFile => Ok(Some(stat)),
        FileType::Directory => Err(problems::is_a_directory(path)),
        FileType::Symlink => Err(problems::symlink_not_followed(path)),
        _ => Err(problems::special_file(path)),
    }
}

fn overwrite(directory: &OwnedFd, name: &str, content: &[u8]) -> io::Result<Stat> {
    let mut draft = create_temp_file(directory.as_fd())?;
    draft.file.write_all(content)?;
    persist(draft, directory.as_fd(), name)
}

/// Appends to a file. If that fails half way, the file is restored.
fn append(directory: &OwnedFd, name: &str, content: &[u8], exists: bool) -> io::Result<Stat> {
    let how = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let how = if exists {
        how
    } else {
        how | OFlags::CREATE | OFlags::EXCL
    };
    let mut file = File::from(open_beneath(
        directory,
        name,
        how,
        if exists { Mode::empty() } else { FILE_MODE },
        SymlinkPolicy::Refuse,
    )?);
    let before = fstat(&file)?;
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile || before.st_nlink > 1 {
        // It was replaced after the check.
        return Err(Errno::NXIO.into());
    }
    let written = file
        .write_all(content)
        .and_then(|()| set_unique_mtime(&file))
        .and_then(|()| Ok(fsync(&file)?));
    if let Err(error) = written {
        if exists {
            let _ = ftruncate(&file, tree::file_size(&before));
        } else {
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
        }
        return Err(error);
    }
    if !exists {
        fsync(directory)?;
    }
    Ok(fstat(&file)?)
}
