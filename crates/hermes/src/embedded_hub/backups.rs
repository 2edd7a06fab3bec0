//! Backups by the clock, as `backup.schedule` says. They are files of a directory, which tell by their names when they
//! were made; the newest ones are kept.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hermes_config::private_file::{FileOwner, create_private_dirs};
use hermes_hub::{
    settings::Settings,
    storage::{backup, backup::KeyInBackup, data_dir::DataDir, state::SqliteState},
};
use hermes_store::cron::Schedule;
use jiff::{Timestamp, Zoned, civil::DateTime, tz::TimeZone};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// The names of backups: what comes before and after the time.
const NAME_PREFIX: &str = "hub-";
const NAME_SUFFIX: &str = ".tar.zst";
const TIME_FORMAT: &str = "%Y%m%dT%H%M%SZ";

/// The longest sleep: the system clock may be changed meanwhile.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Delay before a failed backup is retried.
const RETRY_DELAY: Duration = Duration::from_mins(10);

/// When backups are made, where, and how many are kept.
#[derive(Debug, Clone)]
pub(super) struct BackupSchedule {
    schedule: Schedule,
    directory: PathBuf,
    keep: usize,
}

impl BackupSchedule {
    /// What the settings want; nothing if they want none.
    pub(super) fn from_settings(settings: &Settings) -> Result<Option<Self>, Failure> {
        let Some(text) = &settings.backup.schedule else {
            return Ok(None);
        };
        if settings.database.is_postgres() {
            return Err(Failure::usage(
                "`backup.schedule` makes copies of an SQLite database, and `database.url` names PostgreSQL",
            )
            .hint("leave it out, and back up PostgreSQL with its own programs, such as `pg_dump`"));
        }
        let wrong = |reason: String| {
            Failure::usage(format!("`backup.schedule`: {reason}"))
                .hint("such as `every 24h`, or `0 3 * * *` for three o'clock each night")
        };
        let schedule =
            Schedule::parse(text, &Zoned::now()).map_err(|error| wrong(error.to_string()))?;
        if !schedule.is_recurring() {
            return Err(wrong(format!("`{text}` happens only once")));
        }
        let path = settings.backup.path.clone();
        Ok(Some(Self {
            schedule,
            directory: path.unwrap_or_else(|| settings.data_dir.join("backups")),
            keep: usize::try_from(settings.backup.keep.max(1)).unwrap_or(usize::MAX),
        }))
    }

    /// Makes backups until it is told to stop. One that was missed is made up for.
    pub(super) async fn run(
        self,
        data_dir: PathBuf,
        state: Arc<SqliteState>,
        stop: CancellationToken,
    ) {
        let first = Zoned::now();
        loop {
            let now = Zoned::now();
            let last =
                newest_backup(&self.directory).map(|time| time.to_zoned(now.time_zone().clone()));
            let since = last.as_ref().unwrap_or(&first);
            let due = self.schedule.next_run(Some(since), &now);
            let rest = match due {
                Some(due) if due > now => duration_until(&due, &now).min(POLL_INTERVAL),
                Some(_) => match self.create_backup(&data_dir, &state).await {
                    Ok(path) => {
                        tracing::info!(path = %path.display(), "backup written");
                        continue;
                    }
                    Err(error) => {
                        tracing::error!(%error, "backup failed, retrying");
                        RETRY_DELAY
                    }
                },
                None => POLL_INTERVAL,
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(rest) => {}
            }
        }
    }

    /// Makes one, and removes what is too old.
    async fn create_backup(&self, data_dir: &Path, state: &SqliteState) -> io::Result<PathBuf> {
        create_private_dirs(&self.directory, FileOwner::Writer)?;
        let data_dir = DataDir::create(data_dir).map_err(io::Error::other)?;
        let name = format!(
            "{NAME_PREFIX}{}{NAME_SUFFIX}",
            Timestamp::now().strftime(TIME_FORMAT)
        );
        let path = self.directory.join(name);
        backup::write_backup_file(&data_dir, state, KeyInBackup::Without, &path)
            .await
            .map_err(io::Error::other)?;
        for old in list_backups(&self.directory)
            .into_iter()
            .rev()
            .skip(self.keep)
        {
            fs::remove_file(old.1)?;
        }
        Ok(path)
    }
}

fn duration_until(due: &Zoned, now: &Zoned) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or_default()
}

/// The backups in a directory, oldest first.
fn list_backups(directory: &Path) -> Vec<(Timestamp, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut made: Vec<_> = entries
        .filter_map(|entry| {
            Some((
                parse_backup_time(entry.file_name().to_str()?)?,
                entry.path(),
            ))
        })
        .collect();
    made.sort();
    made
}

fn newest_backup(directory: &Path) -> Option<Timestamp> {
    list_backups(directory).pop().map(|(time, _)| time)
}

/// When a backup of this name was made; none if it is not ours.
fn parse_backup_time(name: &str) -> Option<Timestamp> {
    let time = name.strip_prefix(NAME_PREFIX)?.strip_suffix(NAME_SUFFIX)?;
    let time = DateTime::strptime(TIME_FORMAT, time).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_are_known_by_their_names() {
        let time = parse_backup_time("hub-20261115T030000Z.tar.zst").unwrap();
        assert_eq!(time.to_string(), "2026-11-15T03:00:00Z");
        for other in ["hub.tar.zst", "hub-mine.tar.zst", "hub-20261115T030000Z"] {
            assert_eq!(parse_backup_time(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn a_missed_backup_is_made_up_for_and_only_the_newest_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let mut settings = Settings::for_directory(&base.path().join("hub")).unwrap();
        let directory = DataDir::create(&settings.data_dir).unwrap();
        let state = SqliteState::open(&directory.database(), "n1")
            .await
            .unwrap();
        settings.backup.schedule = Some("every 24h".into());
        settings.backup.keep = 2;
        let backups = BackupSchedule::from_settings(&settings).unwrap().unwrap();
        let places = backups.directory.clone();
        fs::create_dir_all(&places).unwrap();
        for name in [
            "hub-20260101T000000Z.tar.zst",
            "hub-20260102T000000Z.tar.zst",
            "hub-mine.tar.zst",
        ] {
            fs::write(places.join(name), "").unwrap();
        }
        let stop = CancellationToken::new();
        let running = backups.run(settings.data_dir.clone(), Arc::new(state), stop.clone());
        let looking = async {
            let old = places.join("hub-20260101T000000Z.tar.zst");
            let is_removed = hermes_testkit::eventually(Duration::from_mins(1), || !old.exists());
            assert!(is_removed.await);
            stop.cancel();
        };
        tokio::join!(running, looking);
        let made = list_backups(&places);
        assert_eq!(made.len(), 2);
        assert!(places.join("hub-mine.tar.zst").exists());
        let archive = fs::File::open(&made[1].1).unwrap();
        let target = base.path().join("restored");
        backup::restore_backup(archive, &target).await.unwrap();
        assert!(target.join("hub.db").exists());
    }

    #[test]
    fn a_schedule_that_makes_no_sense_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings::for_directory(directory.path()).unwrap();
        assert!(BackupSchedule::from_settings(&settings).unwrap().is_none());
        for schedule in ["30m", "now and then"] {
            settings.backup.schedule = Some(schedule.into());
            let failure = BackupSchedule::from_settings(&settings).unwrap_err();
            assert!(failure.message.contains("backup.schedule"), "{failure:?}");
        }
    }
}
