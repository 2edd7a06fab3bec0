//! The directory `cron` of a home: found by its path, or held open by who must not follow links in it.

use std::{fs::File, io, path::PathBuf, time::Duration};

use hermes_config::Home;

use super::CronError;
use crate::file;

/// The directory's name in a home.
pub const CRON_DIRECTORY: &str = "cron";
/// The file of jobs in it.
pub const JOBS_FILE: &str = "jobs.json";
/// The file whose lock is held while jobs are changed.
pub(super) const LOCK_FILE: &str = ".jobs.lock";

/// How the files of the directory are reached.
pub trait CronDirectory {
    /// Where a file is, to be shown.
    fn path(&self, name: &str) -> PathBuf;

    /// The text of a file, if there is one.
    fn read(&self, name: &str) -> io::Result<Option<String>>;

    /// Replaces a file whole.
    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()>;

    /// Locks a file, created if missing, until the result is dropped.
    fn lock(&self, name: &str, timeout: Duration) -> io::Result<File>;

    /// What it means that a file could not be used.
    fn error(&self, name: &str, source: io::Error) -> CronError {
        CronError::Io {
            path: self.path(name),
            source,
        }
    }
}

/// The directory of one's own home. Links in it are followed.
#[derive(Debug)]
pub(super) struct OwnDirectory(PathBuf);

impl OwnDirectory {
    pub(super) fn new(home: &Home) -> Self {
        Self(cron_dir(home))
    }
}

impl CronDirectory for OwnDirectory {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn read(&self, name: &str) -> io::Result<Option<String>> {
        file::read_optional(&self.path(name))
    }

    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        file::replace_file(&self.path(name), content)
    }

    fn lock(&self, name: &str, timeout: Duration) -> io::Result<File> {
        file::lock_file(&self.path(name), timeout)
    }
}

pub(super) fn cron_dir(home: &Home) -> PathBuf {
    home.path().join(CRON_DIRECTORY)
}
