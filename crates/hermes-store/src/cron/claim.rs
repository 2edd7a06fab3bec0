//! Claims: a run is taken before it begins, under the lock of the file, so that it happens at most once. The tick lock
//! and heartbeat: one process of a home runs due jobs.
//!
//! A job that repeats moves on to its next time when it is claimed; a single one counts the claim as its run. A
//! claim keeps the job from overlapping itself until it is finished or, after a crash, too old.

use std::{fs, io, time::Duration};

use hermes_config::Home;
use jiff::Zoned;
use serde_json::{Value, json};

use super::{
    CronError, CronFile, DeliveryRecord, DeliveryStatus, Job, JobState, Repeat, describe_failures,
    directory::cron_dir,
    schedule::{self, seconds_between},
};
use crate::{
    clock::{epoch_seconds, zoned_iso},
    file,
};

/// Whether a job's time has come.
#[derive(Debug, Clone, PartialEq)]
pub enum Due {
    /// Not yet, or it does not take part.
    NotYet,
    Now,
    /// It was missed by too much. It goes on at that time.
    Missed {
        /// The next time that is not over.
        next: Zoned,
    },
}

/// The result of claiming a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Claim {
    /// The run is the caller's, with the job as it was due.
    Won(Box<Job>),
    /// It is running, has just been taken by somebody else, or does not take part.
    Lost,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunResult {
    /// Why it failed; none if it did not.
    pub error: Option<String>,
    /// Where its message went, or was to go.
    pub deliveries: Vec<DeliveryRecord>,
}

impl Job {
    /// Whether it runs when it is due: it is enabled, and neither paused nor over.
    pub fn is_active(&self) -> bool {
        self.is_enabled() && self.state() == JobState::Scheduled
    }

    /// Whether its time has come.
    pub fn due(&self, now: &Zoned) -> Due {
        let (Some(next), Some(schedule)) = (self.next_run_at(now), self.schedule(now)) else {
            return Due::NotYet;
        };
        if !self.is_active() || seconds_between(&next, now) < 0 {
            return Due::NotYet;
        }
        if !schedule.is_missed(&next, now) {
            return Due::Now;
        }
        match schedule.next_run(Some(now), now) {
            Some(next) => Due::Missed { next },
            None => Due::NotYet,
        }
    }

    /// Whether somebody claimed it not longer ago than that. A claim from the future is a clock's mistake.
    fn is_claimed(&self, now: &Zoned, lease: Duration) -> bool {
        ["fire_claim", "run_claim"].iter().any(|key| {
            let at = self.get(key).and_then(|claim| claim.get("at")?.as_str());
            at.and_then(|at| schedule::parse_time(at, now).ok())
                .map(|at| seconds_between(&at, now))
                .is_some_and(|age| age >= 0 && age.unsigned_abs() < lease.as_secs())
        })
    }
}

impl CronFile {
    /// Moves a job that was missed on to another time.
    pub fn skip_to(&mut self, id: &str, next: &Zoned) -> Result<(), CronError> {
        self.find_mut(id)?.set_time("next_run_at", Some(next));
        Ok(())
    }

    /// Takes a run of a job. To be called inside [`CronFile::change`], before anything is done.
    pub fn claim(
        &mut self,
        id: &str,
        owner: &str,
        lease: Duration,
        now: &Zoned,
    ) -> Result<Claim, CronError> {
        let Some(at) = self.jobs.iter().position(|job| job.id() == id) else {
            return Ok(Claim::Lost);
        };
        let job = &mut self.jobs[at];
        if !job.is_active() || job.is_claimed(now, lease) {
            return Ok(Claim::Lost);
        }
        let due = job.clone();
        let stamp = json!({"at": zoned_iso(now), "by": owner});
        match job.schedule(now) {
            Some(schedule) if schedule.is_recurring() => {
                let next = schedule.next_run(Some(now), now);
                job.set_time("next_run_at", next.as_ref());
                if next.is_none() {
                    job.set("state", JobState::Error.as_str());
                }
            }
            _ => {
                let (times, completed) = job.repeat();
                if matches!(times, Repeat::Times(times) if completed >= times) {
                    // Claimed before by a process that died since: not repeated.
                    self.jobs.remove(at);
                    return Ok(Claim::Lost);
                }
                job.set_completed(completed + 1);
                job.set("run_claim", stamp.clone());
            }
        }
        job.set("fire_claim", stamp);
        Ok(Claim::Won(Box::new(due)))
    }

    /// Lets a job have its last run once more, which was claimed and cut off before its end. One that has ended is not
    /// there any more, and other jobs have further runs.
    pub fn return_lost_run(&mut self, id: &str) -> Result<(), CronError> {
        let job = self.find_mut(id)?;
        let (times, completed) = job.repeat();
        if matches!(times, Repeat::Times(times) if completed >= times) {
            job.set_completed(completed.saturating_sub(1));
        }
        Ok(())
    }

    /// Keeps a long run's claim fresh. Returns whether it is still that owner's.
    pub fn refresh_claim(&mut self, id: &str, owner: &str, now: &Zoned) -> bool {
        let Some(job) = self.jobs.iter_mut().find(|job| job.id() == id) else {
            return false;
        };
        let mut refreshed = false;
        for key in ["fire_claim", "run_claim"] {
            let held = job.get(key).and_then(|claim| claim.get("by")?.as_str());
            if held == Some(owner) {
                job.set(key, json!({"at": zoned_iso(now), "by": owner}));
                refreshed = true;
            }
        }
        refreshed
    }

    /// Gives back the claims of owners that will not finish, as `is_gone` says of them. What they had claimed is not
    /// run again: its time has moved on, or its one run counts as used.
    pub fn release_claims(&mut self, is_gone: impl Fn(&str) -> bool) {
        for job in &mut self.jobs {
            for key in ["fire_claim", "run_claim"] {
                let owner = job.get(key).and_then(|claim| claim.get("by")?.as_str());
                if owner.is_some_and(&is_gone) {
                    job.set(key, Value::Null);
                }
            }
        }
    }

    /// Records how a run went and gives the claim back. A job that has run as often as it should is removed.
    pub fn finish(&mut self, id: &str, result: &RunResult, now: &Zoned) -> Result<(), CronError> {
        let job = self.find_mut(id)?;
        job.set_time("last_run_at", Some(now));
        let status = if result.error.is_none() {
            "ok"
        } else {
            "error"
        };
        job.set("last_status", status);
        job.set("last_error", result.error.clone());
        job.set_deliveries(&result.deliveries);
        job.set("fire_claim", Value::Null);
        if job.get("run_claim").is_some() {
            job.set("run_claim", Value::Null);
        }
        let recurring = job
            .schedule(now)
            .is_some_and(|schedule| schedule.is_recurring());
        let (times, mut completed) = job.repeat();
        if recurring {
            completed += 1;
            job.set_completed(completed);
        }
        if matches!(times, Repeat::Times(times) if completed >= times) {
            self.jobs.retain(|job| job.id() != id);
        }
        Ok(())
    }

    /// Records what became of the message of the run that ended at this time, if it is the job's last one.
    pub fn record_deliveries(
        &mut self,
        id: &str,
        finished_at: &str,
        deliveries: &[DeliveryRecord],
    ) -> Result<(), CronError> {
        let job = self.find_mut(id)?;
        if job.text("last_run_at") == Some(finished_at) {
            job.set_deliveries(deliveries);
        }
        Ok(())
    }
}

impl Job {
    fn set_deliveries(&mut self, deliveries: &[DeliveryRecord]) {
        self.set("last_delivery_error", describe_failures(deliveries));
        let status = DeliveryStatus::of(deliveries);
        self.set("last_delivery_status", status.as_str());
        self.set("last_deliveries", json!(deliveries));
    }
}

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
