//! What is said of a job on the command line, checked against the home.

use hermes_agent::cron::locate_script;
use hermes_store::{cron::Repeat, skills::Skills};

use super::CronJobs;
use crate::{cli::JobOptions, failure::Failure};

/// Makes sure that what a job needs is there.
pub(super) fn check_options(jobs: &CronJobs<'_>, options: &JobOptions) -> Result<(), Failure> {
    if let Some(script) = options
        .script
        .as_deref()
        .filter(|script| !script.is_empty())
    {
        locate_script(&jobs.context.home, script)
            .map_err(|error| Failure::usage(error.to_string()))?;
    }
    let skills = Skills::new(&jobs.context.home, jobs.settings);
    for skill in options.skills.iter().filter(|skill| !skill.is_empty()) {
        skills.find(skill)?;
    }
    Ok(())
}

/// The ids of the jobs whose output is wanted.
pub(super) fn resolve_context_jobs(
    jobs: &CronJobs<'_>,
    options: &JobOptions,
) -> Result<Vec<String>, Failure> {
    let file = jobs.load()?;
    let given = options.context_from.iter().filter(|job| !job.is_empty());
    given
        .map(|job| {
            Ok(file
                .find(job)
                .map_err(|error| super::with_hint(error, job, &file))?
                .id()
                .to_owned())
        })
        .collect()
}

/// The whole path of the working directory.
pub(super) fn resolve_workdir(given: &str) -> Result<String, Failure> {
    let found = std::path::absolute(given).ok().filter(|path| path.is_dir());
    let path = found.and_then(|path| path.to_str().map(str::to_owned));
    path.ok_or_else(|| Failure::usage(format!("`{given}` is not a directory")))
}

pub(super) fn repeat(times: u32) -> Repeat {
    match times {
        0 => Repeat::Forever,
        times => Repeat::Times(times),
    }
}
