//! Writing files and making directories. Writes are atomic: a temporary file in the same directory is renamed to its
//! target. Readers see the old content or the new, also after a crash.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use hermes_config::{
    beneath::{DIRECTORY_FLAGS, SymlinkPolicy, open_beneath},
    private_file::{NewFileMode, TempFile, chown_to_directory_owner},
};
use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, fstat, fsync,
        ftruncate, futimens, mkdirat, statat,
    },
    io::Errno,
};

use super::SharedDirectory;
use crate::{
    Problem,
    storage::files::{
        CreateOutcome, FileEntry, IfMatch, SharePath, TreeUsage, WriteMode, WrittenFile,
        path::TEMP_PREFIX, problems, tree,
    },
};

pub(crate) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY_MODE: Mode = Mode::RWXU;

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
            return Err(problems::write_too_large(limits.write_bytes, content.len()));
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
pub(super) fn find_writable(
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
    overwrite_from(directory, name, content)
}

/// Replaces a file by what a reader gives. In a home, it belongs to the home's owner.
pub(super) fn overwrite_from(
    directory: &OwnedFd,
    name: &str,
    mut content: impl io::Read,
) -> io::Result<Stat> {
    let mut draft = create_temp_file(directory.as_fd())?;
    chown_to_directory_owner(&draft.file, directory)?;
    io::copy(&mut content, &mut draft.file)?;
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
    if !exists {
        chown_to_directory_owner(&file, directory)?;
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

/// Creates a temporary file in a directory.
pub(crate) fn create_temp_file(directory: BorrowedFd<'_>) -> io::Result<TempFile<'_>> {
    TempFile::create(directory, TEMP_PREFIX, NewFileMode::Private)
}

/// Renames a temporary file to its target and syncs both to disk.
pub(crate) fn persist(
    draft: TempFile<'_>,
    directory: BorrowedFd<'_>,
    name: &str,
) -> io::Result<Stat> {
    set_unique_mtime(&draft.file)?;
    fsync(&draft.file)?;
    let file = draft.file.try_clone()?;
    draft.persist(name)?;
    fsync(directory)?;
    Ok(fstat(&file)?)
}

/// Creates nested directories; `made` counts the new ones.
pub(crate) fn make_directories(
    mut directory: OwnedFd,
    names: &[&str],
    made: &mut u64,
) -> Result<OwnedFd, Errno> {
    for name in names {
        let is_new = match mkdirat(&directory, *name, DIRECTORY_MODE) {
            Ok(()) => {
                *made += 1;
                fsync(&directory)?;
                true
            }
            // Created by another process, or it existed before.
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error),
        };
        let inside = open_beneath(
            &directory,
            name,
            DIRECTORY_FLAGS,
            Mode::empty(),
            SymlinkPolicy::Refuse,
        )?;
        if is_new {
            chown_to_directory_owner(&inside, &directory)?;
        }
        directory = inside;
    }
    Ok(directory)
}

/// Sets a modification time that no other write of this process gets, because versions are told apart by it.
pub(crate) fn set_unique_mtime(file: &File) -> io::Result<()> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
    let mut last = LAST.load(Ordering::Relaxed);
    let time = loop {
        let next = now.max(last.saturating_add(1));
        match LAST.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => break next,
            Err(seen) => last = seen,
        }
    };
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: i64::try_from(time / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (time % 1_000_000_000).try_into().unwrap_or_default(),
        },
    };
    futimens(file, &times)?;
    Ok(())
}
