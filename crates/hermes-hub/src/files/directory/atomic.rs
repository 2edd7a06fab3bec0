//! Atomic writes: a temporary file in the same directory is renamed to its target. Readers see the old content or the
//! new, also after a crash.

use std::{
    fs::File,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{
        AtFlags, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, fstat, fsync, futimens,
        mkdirat, openat, renameat, unlinkat,
    },
    io::Errno,
};

use crate::files::{
    beneath::{DIRECTORY_FLAGS, SymlinkPolicy, open_beneath},
    path::TEMP_PREFIX,
};

pub(crate) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY_MODE: Mode = Mode::RWXU;

/// A temporary file, removed on drop unless it was persisted.
#[derive(Debug)]
pub(crate) struct TempFile<'a> {
    directory: BorrowedFd<'a>,
    name: String,
    pub(crate) file: File,
    is_persisted: bool,
}

impl<'a> TempFile<'a> {
    pub(crate) fn create(directory: BorrowedFd<'a>) -> io::Result<Self> {
        let name = format!("{TEMP_PREFIX}{}", random_name()?);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, name.as_str(), flags, FILE_MODE)?;
        Ok(Self {
            directory,
            name,
            file: File::from(file),
            is_persisted: false,
        })
    }

    /// Renames it to its target and syncs it to disk.
    pub(crate) fn persist(mut self, name: &str) -> io::Result<Stat> {
        set_unique_mtime(&self.file)?;
        fsync(&self.file)?;
        renameat(self.directory, self.name.as_str(), self.directory, name)?;
        self.is_persisted = true;
        fsync(self.directory)?;
        Ok(fstat(&self.file)?)
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if !self.is_persisted {
            // If this fails too, the next count removes it.
            let _ = unlinkat(self.directory, self.name.as_str(), AtFlags::empty());
        }
    }
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

pub(crate) fn random_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}
