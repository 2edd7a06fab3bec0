//! Cron jobs: the file they are kept in, when they run, and a record of their runs. The ticker that runs them is in
//! other crates.
//!
//! `cron/jobs.json` is shared with Hermes Agent 0.19: keys we do not know are kept as they are.

use hermes_config::Settings;
use jiff::tz::TimeZone;
use serde_json::Value;

mod claim;
mod directory;
mod executions;
mod file;
mod job;
mod limits;
mod output;
mod schedule;
mod tick;

pub use claim::{Claim, Due, RunResult};
pub use directory::{CRON_DIRECTORY, CronDirectory, JOBS_FILE};
pub use executions::{Execution, ExecutionStatus, Executions};
pub use file::{CronError, CronFile};
pub use job::{
    CHANGEABLE_KEYS, Job, JobChanges, JobState, MAX_NAME_LENGTH, MAX_PROMPT_LENGTH, NewJob, Repeat,
};
pub use limits::JobLimits;
pub use output::{last_output, write_output};
pub use schedule::{Schedule, ScheduleError, ScheduleExplanation};
pub use tick::{TickLock, heartbeat_age, remove_heartbeat, write_heartbeat};

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
            tracing::warn!(%error, "unknown `timezone`, using the system's");
            TimeZone::system()
        }
        None => TimeZone::system(),
    }
}
