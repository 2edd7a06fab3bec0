//! `hermes cron status`: whether jobs run by themselves, and which is next.

use std::time::Duration;

use hermes_store::cron::{Job, JobState, heartbeat_age};
use serde_json::json;

use super::{CronJobs, shown_time};
use crate::{commands::state, failure::Failure, output::printable};

/// A ticker writes a heartbeat every minute; without one for this long it is gone.
const TICKER_TIMEOUT: Duration = Duration::from_mins(3);

const WITHOUT_TICKER: &str = "No ticker is running, so jobs do not start by themselves: start `hermes gateway`, or run what is due once with `hermes cron tick`.";

pub(super) fn run(jobs: &CronJobs<'_>) -> Result<(), Failure> {
    let file = jobs.load()?;
    let active: Vec<&Job> = file
        .jobs
        .iter()
        .filter(|job| job.is_enabled() && job.state() == JobState::Scheduled)
        .collect();
    let next = active
        .iter()
        .filter_map(|job| Some((job.next_run_at(&jobs.now)?, *job)))
        .min_by_key(|(at, _)| at.timestamp());
    let output = jobs.context.output;
    let has_ticker = has_ticker(jobs);
    output.line(if has_ticker {
        "A ticker runs jobs of this home."
    } else {
        WITHOUT_TICKER
    });
    output.line(format!(
        "{}, {} waiting",
        state::pluralize(file.jobs.len(), "job"),
        active.len()
    ));
    if let Some((at, job)) = &next {
        output.line(format!(
            "next: {} (`{}`) at {}",
            printable(job.name()),
            job.id(),
            shown_time(at)
        ));
    }
    output.json(json!({
        "ticker": has_ticker,
        "jobs": file.jobs.len(),
        "waiting": active.len(),
        "next_job": next.as_ref().map(|(_, job)| job.id()),
        "next_run_at": next.as_ref().map(|(at, _)| at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()),
    }));
    Ok(())
}

pub(super) fn has_ticker(jobs: &CronJobs<'_>) -> bool {
    heartbeat_age(&jobs.context.home).is_some_and(|age| age < TICKER_TIMEOUT)
}

/// Says so where a job would wait forever.
pub(super) fn warn_without_ticker(jobs: &CronJobs<'_>) {
    if !has_ticker(jobs) {
        jobs.context.output.note(WITHOUT_TICKER);
    }
}
