//! Writing files and making directories.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, OwnedFd},
    sync::PoisonError,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, fsync, ftruncate, statat},
    io::Errno,
};

use super::{
    Share,
    atomic::{Draft, FILE_MODE, make_directories, set_unique_time},
};
use crate::{
    Code, Problem,
    files::{
        FileEntry, IfMatch, Placed, SharePath, Used, WriteMode, Written,
        beneath::{Links, open_beneath},
        faults, tree,
    },
};

impl Share {
    pub(super) fn write(
        &self,
        path: &SharePath,
        content: &[u8],
        mode: WriteMode,
        condition: Option<&IfMatch>,
    ) -> Result<(Placed, Written), Problem> {
        let limits = self.limits();
        if content.len() > limits.write_bytes {
            return Err(Problem::new(
                Code::PayloadTooLarge,
                format!(
                    "a write has at most {} bytes, and this has {}: append the rest afterwards",
                    limits.write_bytes,
                    content.len()
                ),
            ));
        }
        self.ensure_counted()?;
        let _structure = self
            .structure
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let _path = self.paths.lock(path);

        self.place(path, content, mode, condition)
    }

    /// Writes a file under its path lock.
    fn place(
        &self,
        path: &SharePath,
        content: &[u8],
        mode: WriteMode,
        condition: Option<&IfMatch>,
    ) -> Result<(Placed, Written), Problem> {
        let Some((parent, name)) = path.split() else {
            return Err(faults::is_directory(path));
        };
        let (directory, missing) = self.nearest(&parent)?;
        let before = if missing.is_empty() {
            existing(&directory, name, path)?
        } else {
            None
        };
        if let Some(condition) = condition {
            condition.check(before.as_ref().map(tree::etag).as_deref())?;
        }
        let length = content.len() as u64;
        let old_length = before.as_ref().map_or(0, tree::size);
        let need = Used {
            bytes: match mode {
                WriteMode::Overwrite => length.saturating_sub(old_length),
                WriteMode::Append => length,
            },
            files: missing.len() as u64 + u64::from(before.is_none()),
        };
        let room = self.quota.reserve(need, self.limits().allowance)?;
        let mut new_directories = 0;
        let written = make_directories(directory, &missing, &mut new_directories)
            .map_err(Self::fault(path))
            .and_then(|directory| {
                match mode {
                    WriteMode::Overwrite => overwrite(&directory, name, content),
                    WriteMode::Append => append(&directory, name, content, before.is_some()),
                }
                .map_err(|error| faults::io_problem(&error, path))
            });
        // New directories stay and count, even if the file is not written.
        let mut added = Used {
            bytes: 0,
            files: new_directories,
        };
        let mut gone = Used::default();
        if let Ok(stat) = &written {
            added.bytes = tree::size(stat);
            added.files += u64::from(before.is_none());
            gone.bytes = old_length;
        }
        room.settle(added, gone);
        let entry = tree::entry(path.as_str().to_owned(), &written?)
            .ok_or_else(|| faults::special(path))?;
        let written = Written {
            entry,
            bytes_written: length,
        };
        Ok(match before {
            None => (Placed::Created, written),
            Some(_) => (Placed::Replaced, written),
        })
    }

    pub(super) fn make_dir(&self, path: &SharePath) -> Result<(Placed, FileEntry), Problem> {
        self.ensure_counted()?;
        let _structure = self
            .structure
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let (directory, missing) = self.nearest(path)?;
        let need = Used {
            bytes: 0,
            files: missing.len() as u64,
        };
        let room = self.quota.reserve(need, self.limits().allowance)?;
        let mut made = 0;
        let directory = make_directories(directory, &missing, &mut made);
        let added = Used {
            bytes: 0,
            files: made,
        };
        room.settle(added, Used::default());
        let stat = directory.and_then(fstat).map_err(Self::fault(path))?;
        let placed = if made == 0 {
            Placed::Replaced
        } else {
            Placed::Created
        };
        let entry =
            tree::entry(path.as_str().to_owned(), &stat).ok_or_else(|| faults::special(path))?;
        Ok((placed, entry))
    }

    /// The deepest existing directory of a path, and the missing names below it.
    pub(super) fn nearest<'p>(
        &self,
        path: &'p SharePath,
    ) -> Result<(OwnedFd, Vec<&'p str>), Problem> {
        let mut missing = Vec::new();
        let mut there = path.clone();
        let mut names = path.segments().rev();
        loop {
            match self.tree.directory(&there, Links::Refuse) {
                Ok(directory) => {
                    missing.reverse();
                    return Ok((directory, missing));
                }
                Err(Errno::NOENT) => {}
                Err(error) => return Err(faults::problem(error, path)),
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
fn existing(directory: &OwnedFd, name: &str, path: &SharePath) -> Result<Option<Stat>, Problem> {
    let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(faults::problem(error, path)),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_nlink > 1 => Err(faults::hard_link(path)),
        FileType::RegularFile => Ok(Some(stat)),
        FileType::Directory => Err(faults::is_directory(path)),
        FileType::Symlink => Err(faults::link(path)),
        _ => Err(faults::special(path)),
    }
}

fn overwrite(directory: &OwnedFd, name: &str, content: &[u8]) -> io::Result<Stat> {
    let mut draft = Draft::create(directory.as_fd())?;
    draft.file.write_all(content)?;
    draft.place(name)
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
        Links::Refuse,
    )?);
    let before = fstat(&file)?;
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile || before.st_nlink > 1 {
        // It was replaced after the check.
        return Err(Errno::NXIO.into());
    }
    let written = file
        .write_all(content)
        .and_then(|()| set_unique_time(&file))
        .and_then(|()| Ok(fsync(&file)?));
    if let Err(error) = written {
        if exists {
            let _ = ftruncate(&file, tree::size(&before));
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
