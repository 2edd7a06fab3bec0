//! `hermes cron pause`, `resume`, `run` and `remove`.

use hermes_store::cron::CronFile;

use super::{Jobs, status};
use crate::{
    cli::{JobArgs, PauseArgs},
    failure::Failure,
};

pub(super) fn pause(jobs: &Jobs<'_>, args: &PauseArgs) -> Result<(), Failure> {
    let reason = args.reason.as_deref();
    let job = jobs.change(&args.job, |file| file.pause(&args.job, reason, &jobs.now))?;
    jobs.tell(&job, "is paused");
    Ok(())
}

pub(super) fn resume(jobs: &Jobs<'_>, args: &JobArgs) -> Result<(), Failure> {
    let job = jobs.change(&args.job, |file| file.resume(&args.job, &jobs.now))?;
    jobs.tell(&job, &format!("goes on, next run {}", jobs.next_run(&job)));
    status::warn_without_ticker(jobs);
    Ok(())
}

pub(super) fn run(jobs: &Jobs<'_>, args: &JobArgs) -> Result<(), Failure> {
    let job = jobs.change(&args.job, |file| file.run_now(&args.job, &jobs.now))?;
    let when = if status::has_ticker(jobs) {
        "runs now"
    } else {
        "runs at the next tick"
    };
    jobs.tell(&job, when);
    status::warn_without_ticker(jobs);
    Ok(())
}

pub(super) fn remove(jobs: &Jobs<'_>, args: &JobArgs) -> Result<(), Failure> {
    let job = jobs.change(&args.job, |file| file.remove(&args.job))?;
    CronFile::remove_output(&jobs.context.home, &job)?;
    jobs.tell(&job, "is removed");
    Ok(())
}
