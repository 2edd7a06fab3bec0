//! Atomic writes: a temporary file in the same directory is renamed to its target. Readers see the old content or the
//! new, also after a crash.

use std::{
    fs::File,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use hermes_config::{
    beneath::{DIRECTORY_FLAGS, SymlinkPolicy, open_beneath},
    private_file::{NewFileMode, TempFile},
};
use rustix::{
    fs::{Mode, Stat, Timespec, Timestamps, UTIME_OMIT, fstat, fsync, futimens, mkdirat},
    io::Errno,
};

use crate::storage::files::path::TEMP_PREFIX;

pub(crate) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY_MODE: Mode = Mode::RWXU;

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
        match mkdirat(&directory, *name, DIRECTORY_MODE) {
            Ok(()) => {
                *made += 1;
                fsync(&directory)?;
            }
            // Created by another process, or it existed before.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        directory = open_beneath(
            &directory,
            name,
            DIRECTORY_FLAGS,
            Mode::empty(),
            SymlinkPolicy::Refuse,
        )?;
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
