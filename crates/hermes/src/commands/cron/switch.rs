//! `hermes cron pause`, `resume`, `run` and `remove`.

use hermes_store::cron::CronFile;

use super::{CronJobs, status};
use crate::{
    cli::{CronJobArgs, CronPauseArgs},
    failure::Failure,
};

pub(super) fn pause(jobs: &CronJobs<'_>, args: &CronPauseArgs) -> Result<(), Failure> {
    let reason = args.reason.as_deref();
    let job = jobs.change(&args.job, |file| file.pause(&args.job, reason, &jobs.now))?;
    jobs.print_change(&job, "is paused");
    Ok(())
}

pub(super) fn resume(jobs: &CronJobs<'_>, args: &CronJobArgs) -> Result<(), Failure> {
    let job = jobs.change(&args.job, |file| file.resume(&args.job, &jobs.now))?;
    jobs.print_change(&job, &format!("goes on, next run {}", jobs.next_run(&job)));
    status::warn_without_ticker(jobs);
    Ok(())
}

pub(super) fn run(jobs: &CronJobs<'_>, args: &CronJobArgs) -> Result<(), Failure> {
    let job = jobs.change(&args.job, |file| file.run_now(&args.job, &jobs.now))?;
    let when = if status::has_ticker(jobs) {
        "runs now"
    } else {
        "runs at the next tick"
    };
    jobs.print_change(&job, when);
    status::warn_without_ticker(jobs);
    Ok(())
}

pub(super) fn remove(jobs: &CronJobs<'_>, args: &CronJobArgs) -> Result<(), Failure> {
    let job = jobs.change(&args.job, |file| file.remove(&args.job))?;
    CronFile::remove_output(&jobs.context.home, &job)?;
    jobs.print_change(&job, "is removed");
    Ok(())
}
