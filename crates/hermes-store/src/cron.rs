//! Cron jobs: the file they are kept in, when they run, how many an operator allows, and a record of their runs. The
//! ticker that runs them is in other crates.
//!
//! `cron/jobs.json` is shared with Hermes Agent 0.19: keys we do not know are kept as they are.

use hermes_config::Settings;
use jiff::{Zoned, tz::TimeZone};
use serde_json::Value;

mod claim;
mod directory;
mod executions;
mod file;
mod job;
mod output;
mod schedule;

pub use claim::{
    Claim, Due, RunResult, TickLock, heartbeat_age, remove_heartbeat, write_heartbeat,
};
pub use directory::{CRON_DIRECTORY, CronDirectory, JOBS_FILE};
pub use executions::{
    DeliveryRecord, DeliveryStatus, DeliveryTarget, Execution, ExecutionStatus, Executions,
    QueuedDelivery, RunMessage, describe_failures,
};
pub use file::{CronError, CronFile};
pub use job::{
    CHANGEABLE_KEYS, Job, JobChanges, JobState, MAX_NAME_LENGTH, MAX_PROMPT_LENGTH, NewJob, Repeat,
};
pub use output::{last_output, write_output};
pub use schedule::{Schedule, ScheduleError, ScheduleExplanation};

/// Runs to check: enough to find an interval of any usual expression that is too short.
const RUNS_CHECKED: usize = 60;

/// The time zone of a home's schedules: `timezone` in its configuration, else that of the system.
pub fn time_zone(settings: &Settings) -> TimeZone {
    let name = settings
        .document
        .get("timezone")
        .and_then(Value::as_str)
        .map(str::trim)
        .filter(|name| !name.is_empty());
    match name.map(TimeZone::get) {
        Some(Ok(zone)) => zone,
        Some(Err(error)) => {
            tracing::warn!(%error, "unknown `timezone`; using the system's");
            TimeZone::system()
        }
        None => TimeZone::system(),
    }
}

/// An operator's limits on the jobs of a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    /// Maximum number of jobs.
    pub max_jobs: usize,
    /// Minimum minutes from one run of a job to the next.
    pub min_interval_minutes: u32,
}

impl JobLimits {
    /// Refuses one job too many, and one that would run too often.
    pub fn check_new(
        &self,
        file: &CronFile,
        schedule: &Schedule,
        now: &Zoned,
    ) -> Result<(), CronError> {
        if file.jobs.len() >= self.max_jobs {
            return Err(CronError::TooMany {
                most: self.max_jobs,
            });
        }
        self.check_schedule(schedule, now)
    }

    /// Refuses a schedule that repeats too often.
    pub fn check_schedule(&self, schedule: &Schedule, now: &Zoned) -> Result<(), CronError> {
        if self.is_too_often(schedule, now) {
            return Err(CronError::TooOften {
                minutes: self.min_interval_minutes,
            });
        }
        Ok(())
    }

    /// Whether a schedule repeats too often. A single run never does.
    pub fn is_too_often(&self, schedule: &Schedule, now: &Zoned) -> bool {
        if !schedule.is_recurring() {
            return false;
        }
        let least = i64::from(self.min_interval_minutes) * 60;
        let mut times = std::iter::successors(schedule.next_run(None, now), |time| {
            schedule.next_run(Some(time), time)
        });
        let Some(mut before) = times.next() else {
            return false;
        };
        for time in times.take(RUNS_CHECKED) {
            if time.timestamp().as_second() - before.timestamp().as_second() < least {
                return true;
            }
            before = time;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(schedule: &str, least_minutes: u32) -> bool {
        let now: Zoned = "2026-11-15T12:00:00[UTC]".parse().unwrap();
        let schedule = Schedule::parse(schedule, &now).unwrap();
        let limits = JobLimits {
            max_jobs: 1,
            min_interval_minutes: least_minutes,
        };
        !limits.is_too_often(&schedule, &now)
    }

    #[test]
    fn schedules_may_not_come_round_too_often() {
        assert!(is_allowed("every 30m", 30));
        assert!(!is_allowed("every 29m", 30));
        assert!(is_allowed("0 9 * * *", 60));
        assert!(!is_allowed("0,5 9 * * *", 10));
        assert!(is_allowed("30m", 60), "once is never too often");
    }
}
