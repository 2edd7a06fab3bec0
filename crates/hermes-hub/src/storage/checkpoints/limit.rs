//! How large a home may be to be saved, and how far the work on it is.

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use hermes_config::beneath::{DIRECTORY_FLAGS, open_directory};
use rustix::fs::{AtFlags, Dir, Mode, Stat, open, statat};

use crate::storage::files::{EntryType, read_entries};

/// How much of a home is saved. Holes of files do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HomeLimit {
    pub bytes: u64,
    pub files: u64,
}

impl HomeLimit {
    pub const NONE: Self = Self {
        bytes: u64::MAX,
        files: u64::MAX,
    };
}

/// A home that has more than its limit allows.
#[derive(Debug, thiserror::Error)]
#[error("the home has more than is saved of one")]
pub(super) struct HomeTooLarge;

impl HomeTooLarge {
    pub(super) fn is_cause_of(error: &io::Error) -> bool {
        error
            .get_ref()
            .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

/// What a scan has read so far.
#[derive(Debug, Default)]
pub(super) struct ScanProgress {
    pub(super) bytes: AtomicU64,
    pub(super) files: AtomicU64,
    is_stopped: AtomicBool,
}

impl ScanProgress {
    /// Counts, and refuses what is too much or what nobody waits for any more.
    pub(super) fn add(&self, bytes: u64, files: u64, limit: HomeLimit) -> io::Result<()> {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let files = self.files.fetch_add(files, Ordering::Relaxed) + files;
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if bytes > limit.bytes || files > limit.files {
            return Err(io::Error::other(HomeTooLarge));
        }
        Ok(())
    }

    /// Refuses a copy that would be too large together with what was read so far.
    pub(super) fn check_copy(&self, bytes: u64, limit: HomeLimit) -> io::Result<()> {
        let bytes = self.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if bytes > limit.bytes {
            return Err(io::Error::other(HomeTooLarge));
        }
        Ok(())
    }

    /// The scan ends at the next file or chunk.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// Looks whether a home is still too large, without reading its files. Blocking.
pub(super) fn check_size(home: &Path, limit: HomeLimit) -> io::Result<()> {
    let measured = ScanProgress::default();
    let root = open(home, DIRECTORY_FLAGS, Mode::empty())?;
    // Only the directories along one path stay open.
    let mut levels = vec![read_entries(Dir::new(root)?)?];
    while let Some((directory, entries)) = levels.last_mut() {
        let Some(entry) = entries.pop() else {
            levels.pop();
            continue;
        };
        let (around, name) = (directory.fd()?, entry.name.as_c_str());
        match entry.kind {
            Some(EntryType::File) => {
                let stat = statat(around, name, AtFlags::SYMLINK_NOFOLLOW);
                measured.add(stat.as_ref().map_or(0, data_bytes), 1, limit)?;
            }
            Some(EntryType::Dir) => {
                measured.add(0, 1, limit)?;
                if let Ok(below) = open_directory(around, name) {
                    levels.push(read_entries(Dir::new(below)?)?);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a file takes on the disk, but not more than it seems to have.
#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the fields have other types on other systems"
)]
fn data_bytes(stat: &Stat) -> u64 {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
    size.min(blocks.saturating_mul(512))
}
