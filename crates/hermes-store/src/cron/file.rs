//! `cron/jobs.json`: read and replaced whole. Changes are made under a lock file that other processes respect too.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use hermes_config::{Home, random::random_digits};
use jiff::Zoned;
use serde_json::{Value, json};

use super::{
    Job, JobChanges, JobState, NewJob, ScheduleError,
    directory::{CronDirectory, JOBS_FILE, LOCK_FILE, OwnDirectory, cron_dir},
};
use crate::clock::zoned_iso;

/// Timeout of the lock: changes take milliseconds, so a longer holder is stuck.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The jobs of a home.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CronFile {
    /// In file order.
    pub jobs: Vec<Job>,
}

fn did_you_mean(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Why jobs could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum CronError {
    /// The file, its directory or its lock cannot be used.
    #[error("`{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The file is not a list of jobs. It was not changed.
    #[error("`{}` is damaged: {reason}; correct it or move it away", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// No job has that id or name.
    #[error("there is no cron job `{reference}`{}", did_you_mean(nearest.as_deref()))]
    NoSuchJob {
        reference: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
    /// Several jobs have that name.
    #[error("several cron jobs are called `{reference}`; use an id: {}", ids.join(", "))]
    Ambiguous {
        reference: String,
        /// Those jobs.
        ids: Vec<String>,
    },
    /// The id of a new job is taken, or could not name a directory.
    #[error("`{id}` cannot be the id of a new cron job")]
    BadId { id: String },
    /// Without an agent there must be a script.
    #[error("a job without an agent needs a script")]
    NoScript,
    /// The schedule is over, or has never been one.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The job's only time is over.
    #[error("the cron job `{id}` has no time left at which it could run; give it another schedule")]
    NoNextRun { id: String },
    /// An operator allows no more jobs.
    #[error("the policy allows {most} cron jobs; remove one first")]
    TooMany { most: usize },
    /// An operator allows no job that runs this often.
    #[error("the policy allows a run every {minutes} minutes at most; choose a longer interval")]
    TooOften {
        /// From one run to the next.
        minutes: u32,
    },
}

impl CronFile {
    /// Reads the jobs of a home. A missing file means no jobs.
    pub fn load(home: &Home) -> Result<Self, CronError> {
        Self::load_from(&OwnDirectory::new(home))
    }

    /// The same, of a directory that is reached in another way.
    pub fn load_from(directory: &impl CronDirectory) -> Result<Self, CronError> {
        let text = directory
            .read(JOBS_FILE)
            .map_err(|source| directory.error(JOBS_FILE, source))?;
        match text {
            Some(text) => Self::parse(&text, &directory.path(JOBS_FILE)),
            None => Ok(Self::default()),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, CronError> {
        let damaged = |reason: String| CronError::Damaged {
            path: path.to_owned(),
            reason,
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let document = match crate::json::parse_json(text) {
            Some(document) => document,
            None => serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?,
        };
        let jobs = match document {
            Value::Array(jobs) => jobs,
            Value::Object(mut map) => match map.remove("jobs") {
                Some(Value::Array(jobs)) => jobs,
                None => Vec::new(),
                Some(_) => return Err(damaged("`jobs` is not a list".into())),
            },
            _ => return Err(damaged("neither an object nor a list".into())),
        };
        let mut read = Vec::with_capacity(jobs.len());
        for job in jobs {
            let Value::Object(map) = job else {
                return Err(damaged("a job is not an object".into()));
            };
            read.push(Job(map));
        }
        Ok(Self { jobs: read })
    }

    /// Makes a change under the lock and saves the file, unless the change failed or changed nothing.
    pub fn change<T>(
        home: &Home,
        now: &Zoned,
        change: impl FnOnce(&mut Self) -> Result<T, CronError>,
    ) -> Result<T, CronError> {
        Self::change_in(&OwnDirectory::new(home), now, change, |error| error)
    }

    /// The same, of a directory that is reached in another way. The change fails with errors of its own, which ours
    /// become too.
    pub fn change_in<T, E>(
        directory: &impl CronDirectory,
        now: &Zoned,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
        to_error: impl Fn(CronError) -> E,
    ) -> Result<T, E> {
        let failed = |name: &str, source| to_error(directory.error(name, source));
        let _lock = directory
            .lock(LOCK_FILE, LOCK_TIMEOUT)
            .map_err(|source| failed(LOCK_FILE, source))?;
        let before = Self::load_from(directory).map_err(&to_error)?;
        let mut after = before.clone();
        let result = change(&mut after)?;
        if after != before {
            directory
                .replace(JOBS_FILE, after.text(now).as_bytes())
                .map_err(|source| failed(JOBS_FILE, source))?;
        }
        Ok(result)
    }

    /// The text of a file with these jobs.
    fn text(&self, now: &Zoned) -> String {
        let jobs: Vec<_> = self.jobs.iter().map(Job::as_json).collect();
        let document = json!({"jobs": jobs, "updated_at": zoned_iso(now)});
        format!("{document:#}\n")
    }

    /// The job of that id, or the only one of that name.
    pub fn find(&self, reference: &str) -> Result<&Job, CronError> {
        self.position(reference).map(|at| &self.jobs[at])
    }

    fn nearest_name(&self, reference: &str) -> Option<String> {
        let names = self.jobs.iter().flat_map(|job| [job.name(), job.id()]);
        hermes_config::nearest(reference, names.map(str::to_owned))
    }

    pub(super) fn find_mut(&mut self, reference: &str) -> Result<&mut Job, CronError> {
        self.position(reference).map(|at| &mut self.jobs[at])
    }

    fn position(&self, reference: &str) -> Result<usize, CronError> {
        if let Some(at) = self.jobs.iter().position(|job| job.id() == reference) {
            return Ok(at);
        }
        let lower = reference.to_lowercase();
        let named: Vec<_> = (0..self.jobs.len())
            .filter(|at| self.jobs[*at].name().to_lowercase() == lower)
            .collect();
        match named[..] {
            [] => Err(CronError::NoSuchJob {
                reference: reference.into(),
                nearest: self.nearest_name(reference),
            }),
            [at] => Ok(at),
            _ => Err(CronError::Ambiguous {
                reference: reference.into(),
                ids: named.iter().map(|at| self.jobs[*at].id().into()).collect(),
            }),
        }
    }

    pub fn create(&mut self, new: NewJob, now: &Zoned) -> Result<Job, CronError> {
        if new.no_agent && new.script.is_none() {
            return Err(CronError::NoScript);
        }
        let id = match &new.id {
            Some(id) if !is_id(id) || self.jobs.iter().any(|job| job.id() == id) => {
                return Err(CronError::BadId { id: id.clone() });
            }
            Some(id) => id.clone(),
            None => random_digits(12),
        };
        let job = new.into_job(id, now);
        if job.next_run_at(now).is_none() {
            return Err(CronError::NoNextRun {
                id: job.id().into(),
            });
        }
        self.jobs.push(job.clone());
        Ok(job)
    }

    /// Changes a job.
    pub fn update(
        &mut self,
        reference: &str,
        changes: JobChanges,
        now: &Zoned,
    ) -> Result<Job, CronError> {
        let job = self.find_mut(reference)?;
        job.apply_changes(changes, now);
        let no_agent = job.get("no_agent").and_then(Value::as_bool);
        if no_agent == Some(true) && job.text("script").is_none() {
            return Err(CronError::NoScript);
        }
        Ok(job.clone())
    }

    /// Stops a job for now.
    pub fn pause(
        &mut self,
        reference: &str,
        reason: Option<&str>,
        now: &Zoned,
    ) -> Result<Job, CronError> {
        let job = self.find_mut(reference)?;
        job.set("enabled", false);
        job.set("state", JobState::Paused.as_str());
        job.set_time("paused_at", Some(now));
        job.set("paused_reason", reason);
        Ok(job.clone())
    }

    /// Lets a job run again, its time counted from now.
    pub fn resume(&mut self, reference: &str, now: &Zoned) -> Result<Job, CronError> {
        let job = self.find_mut(reference)?;
        let next = job
            .schedule(now)
            .and_then(|schedule| schedule.next_run(None, now))
            .ok_or_else(|| CronError::NoNextRun {
                id: job.id().into(),
            })?;
        job.schedule_at(&next);
        Ok(job.clone())
    }

    /// Lets a job run at the next tick.
    pub fn run_now(&mut self, reference: &str, now: &Zoned) -> Result<Job, CronError> {
        let job = self.find_mut(reference)?;
        job.schedule_at(now);
        Ok(job.clone())
    }

    /// Removes a job from the list. Its output is removed by [`CronFile::remove_output`].
    pub fn remove(&mut self, reference: &str) -> Result<Job, CronError> {
        let at = self.position(reference)?;
        Ok(self.jobs.remove(at))
    }

    /// Removes what a removed job has written.
    pub fn remove_output(home: &Home, job: &Job) -> Result<(), CronError> {
        if !is_id(job.id()) {
            return Ok(());
        }
        let path = cron_dir(home).join("output").join(job.id());
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(CronError::Io { path, source })
            }
            _ => Ok(()),
        }
    }
}

impl Job {
    fn schedule_at(&mut self, next: &Zoned) {
        self.set("enabled", true);
        self.set("state", JobState::Scheduled.as_str());
        self.set("paused_at", Value::Null);
        self.set("paused_reason", Value::Null);
        self.set_time("next_run_at", Some(next));
    }
}

/// An id is also the name of a directory and part of a session's id.
pub(super) fn is_id(id: &str) -> bool {
    let sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=64).contains(&id.len())
        && id.chars().all(sign)
        && !id.starts_with('.')
        && !id.contains("..")
}

#[cfg(test)]
mod tests;
