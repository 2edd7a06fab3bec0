//! A file in the making: written beside its place under a name of its own, and put there in one step. Whoever looks
//! sees the old content or the new, also after a crash.

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
    beneath::{DIRECTORY, Links, open_beneath},
    path::TEMPORARY,
};

/// Files are for the Hub alone.
pub(crate) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Directories too.
const DIRECTORY_MODE: Mode = Mode::RWXU;

/// A file that has no place yet. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    directory: BorrowedFd<'a>,
    name: String,
    /// What to write to.
    pub(crate) file: File,
    is_placed: bool,
}

impl<'a> Draft<'a> {
    /// Makes an empty one in a directory.
    pub(crate) fn create(directory: BorrowedFd<'a>) -> io::Result<Self> {
        let name = format!("{TEMPORARY}{}", random_name()?);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, name.as_str(), flags, FILE_MODE)?;
        Ok(Self {
            directory,
            name,
            file: File::from(file),
            is_placed: false,
        })
    }

    /// Puts it in its place, on the disk for good.
    pub(crate) fn place(mut self, name: &str) -> io::Result<Stat> {
        set_unique_time(&self.file)?;
        fsync(&self.file)?;
        renameat(self.directory, self.name.as_str(), self.directory, name)?;
        self.is_placed = true;
        fsync(self.directory)?;
        Ok(fstat(&self.file)?)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_placed {
            // If this fails too, the next count clears it.
            let _ = unlinkat(self.directory, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// Makes directories below one another, and counts those that are new.
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
            // Somebody else was faster, or it was there before.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        directory = open_beneath(&directory, name, DIRECTORY, Mode::empty(), Links::Refuse)?;
    }
    Ok(directory)
}

/// Gives a file a time of change that no other write of this process gets: versions are told apart by it.
pub(crate) fn set_unique_time(file: &File) -> io::Result<()> {
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

/// A name that nothing else has.
pub(crate) fn random_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}
