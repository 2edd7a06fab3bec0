//! The tick lock and heartbeat: one process of a home runs due jobs.

use std::{fs, io, time::Duration};

use hermes_config::Home;

use super::{directory::cron_dir, file::CronError};
use crate::{clock::epoch_seconds, file};

/// Held while due jobs are looked for and claimed. The kernel gives it back when the process ends, however it does.
#[derive(Debug)]
pub struct TickLock {
    _file: fs::File,
}

impl TickLock {
    /// Takes the lock; nothing if another process has it.
    pub fn try_lock(home: &Home) -> Result<Option<Self>, CronError> {
        let path = cron_dir(home).join(".tick.lock");
        match file::lock_file(&path, Duration::ZERO) {
            Ok(file) => Ok(Some(Self { _file: file })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(source) => Err(CronError::Io { path, source }),
        }
    }
}

/// Writes the ticker's heartbeat.
pub fn write_heartbeat(home: &Home) -> Result<(), CronError> {
    let path = cron_dir(home).join("ticker_heartbeat");
    let now = epoch_seconds().to_string();
    file::replace_file(&path, now.as_bytes()).map_err(|source| CronError::Io { path, source })
}

/// Removes the heartbeat of a ticker that stopped, so that nobody waits for it to expire.
pub fn remove_heartbeat(home: &Home) {
    // If it stays, it expires.
    let _ = fs::remove_file(cron_dir(home).join("ticker_heartbeat"));
}

/// The age of the ticker's heartbeat, if there is one.
pub fn heartbeat_age(home: &Home) -> Option<Duration> {
    let heartbeat = fs::metadata(cron_dir(home).join("ticker_heartbeat")).ok()?;
    heartbeat.modified().ok()?.elapsed().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let held = TickLock::try_lock(&home).unwrap();
        assert!(held.is_some());
        assert!(TickLock::try_lock(&home).unwrap().is_none());
        drop(held);
        assert!(TickLock::try_lock(&home).unwrap().is_some());
    }
}
