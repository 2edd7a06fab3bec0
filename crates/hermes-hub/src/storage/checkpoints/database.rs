//! Copies of SQLite databases that are being written to.
//!
//! No lock is taken and SQLite does not open them: a tenant decides what is in its home, and SQLite would follow links
//! there. Instead, the main file is copied first and its write-ahead log after that. The log starts with a header that
//! is replaced before any of its frames is overwritten. If the header is the same before and after, then the log has
//! all that was written to the main file meanwhile, and recovery of the two gives the database as of its last commit in
//! the copy. Otherwise the copy is made again.

use std::{
    ffi::{CStr, CString},
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt as _,
    },
    path::Path,
    time::Duration,
};

use hermes_config::{beneath::READ_FLAGS, random::random_number};
use rustix::{
    fs::{FileType, Mode, OFlags, Stat, fstat, openat},
    io::Errno,
};

use super::sparse::copy_sparse;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const LOG_HEADER_BYTES: usize = 32;
const ATTEMPTS: u32 = 10;
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Times of files advance in steps; two changes within one look like one.
pub(super) const CLOCK_STEP: Duration = Duration::from_millis(20);

/// When a file was changed last, and which one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    size: i64,
    pub(super) modified_ns: i64,
    changed_ns: i64,
}

impl FileStamp {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_possible_wrap,
        clippy::useless_conversion,
        reason = "the fields have other types on other systems"
    )]
    pub(super) fn of(stat: &Stat) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000) + rest;
        Self {
            inode: stat.st_ino as u64,
            size: stat.st_size,
            modified_ns: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed_ns: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Whether a change at this time would show.
    pub(super) fn is_older_than(&self, age: Duration, now_ns: i64) -> bool {
        let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
        self.modified_ns.max(self.changed_ns) < now_ns.saturating_sub(age)
    }
}

pub(super) fn now_ns() -> i64 {
    let now = jiff::Timestamp::now().as_nanosecond();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// A file that was opened; `content` is a copy of it, or absent if it has not changed.
pub(super) struct CopiedFile {
    pub(super) stat: Stat,
    pub(super) content: Option<File>,
}

pub(super) struct DatabaseCopy {
    pub(super) main: CopiedFile,
    pub(super) log: Option<CopiedFile>,
}

/// Opens a regular file of a directory, refusing a link. `None` for anything else.
pub(super) fn open_plain(
    directory: BorrowedFd<'_>,
    name: &CStr,
) -> io::Result<Option<(File, Stat)>> {
    let flags = READ_FLAGS | OFlags::NOFOLLOW;
    let file = match openat(directory, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = fstat(&file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(is_file.then_some((file, stat)))
}

pub(super) fn is_database(file: &File) -> bool {
    let mut start = [0; MAGIC.len()];
    file.read_exact_at(&mut start, 0).is_ok() && start == *MAGIC
}

/// The name of a file that belongs to a database.
pub(super) fn with_suffix(name: &CStr, suffix: &str) -> CString {
    let mut bytes = name.to_bytes().to_vec();
    bytes.extend_from_slice(suffix.as_bytes());
    CString::new(bytes).unwrap_or_default()
}

/// What copies of databases are made with.
pub(super) struct CopyContext<'a> {
    /// A directory for copies.
    pub(super) spool: &'a Path,
    /// Whether a file with this suffix was read before as it is.
    pub(super) is_known: &'a dyn Fn(&str, &FileStamp) -> bool,
    /// Refuses a copy of so many bytes.
    pub(super) check_size: &'a dyn Fn(u64) -> io::Result<()>,
}

/// Copies a database and its log.
pub(super) fn copy_database(
    directory: BorrowedFd<'_>,
    name: &CStr,
    place: &CopyContext<'_>,
) -> io::Result<Option<DatabaseCopy>> {
    let log_name = with_suffix(name, "-wal");
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(RETRY_INTERVAL * attempt);
        }
        let header = log_header(directory, &log_name)?;
        let Some((main, stat)) = open_plain(directory, name)? else {
            return Ok(None);
        };
        let stamp = FileStamp::of(&stat);
        if header.is_none() && !stamp.is_older_than(CLOCK_STEP, now_ns()) {
            // Whether it changes during the copy could not be told.
            std::thread::sleep(CLOCK_STEP);
        }
        let content = if (place.is_known)("", &stamp) {
            None
        } else {
            Some(copy_file(&main, stat.st_size, place)?)
        };
        let log = match header {
            None => None,
            Some(_) => copy_log(directory, &log_name, place)?,
        };
        let is_consistent = match (header, log_header(directory, &log_name)?) {
            (Some(before), Some(after)) => before == after && log.is_some(),
            (None, None) => {
                let has_journal = open_plain(directory, &with_suffix(name, "-journal"))?.is_some();
                FileStamp::of(&fstat(&main)?) == stamp && !has_journal
            }
            _ => false,
        };
        if is_consistent {
            let main = CopiedFile { stat, content };
            return Ok(Some(DatabaseCopy { main, log }));
        }
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        "the database is rewritten all the time",
    ))
}

fn copy_log(
    directory: BorrowedFd<'_>,
    name: &CStr,
    place: &CopyContext<'_>,
) -> io::Result<Option<CopiedFile>> {
    let Some((log, stat)) = open_plain(directory, name)? else {
        return Ok(None);
    };
    let content = if (place.is_known)("-wal", &FileStamp::of(&stat)) {
        None
    } else {
        Some(copy_file(&log, stat.st_size, place)?)
    };
    Ok(Some(CopiedFile { stat, content }))
}

/// The header of a log; `None` if it is missing or empty.
fn log_header(directory: impl AsFd, name: &CStr) -> io::Result<Option<[u8; LOG_HEADER_BYTES]>> {
    let Some((log, _)) = open_plain(directory.as_fd(), name)? else {
        return Ok(None);
    };
    let mut header = [0; LOG_HEADER_BYTES];
    match log.read_exact_at(&mut header, 0) {
        Ok(()) => Ok(Some(header)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Copies a file to one that has no name.
fn copy_file(file: &File, size: i64, place: &CopyContext<'_>) -> io::Result<File> {
    let name = format!(".checkpoint-{:x}", random_number());
    let path = place.spool.join(name);
    let copy = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    fs::remove_file(&path)?;
    let size = u64::try_from(size).unwrap_or(0);
    copy_sparse(file, size, &copy, place.check_size)?;
    Ok(copy)
}
