//! `hermes cron edit`.

use hermes_store::cron::{JobChanges, Schedule};
use serde_json::{Map, Value, json};

use super::{CronJobs, options};
use crate::{
    cli::{CronEditArgs, JobOptions},
    failure::Failure,
};

pub(super) fn run(jobs: &CronJobs<'_>, args: &CronEditArgs) -> Result<(), Failure> {
    let given = &args.options;
    options::check_options(jobs, given)?;
    let schedule = args.schedule.as_deref();
    let changes = JobChanges {
        name: given.name.clone(),
        prompt: args.prompt.clone(),
        schedule: schedule
            .map(|text| Schedule::parse(text, &jobs.now))
            .transpose()?,
        repeat: given.repeat.map(options::repeat),
        others: changed_members(jobs, given)?,
    };
    if changes == JobChanges::default() {
        return Err(Failure::usage("nothing to change was named")
            .hint("`hermes cron edit --help` lists what can be changed"));
    }
    let job = jobs.change(&args.job, |file| file.update(&args.job, changes, &jobs.now))?;
    let (schedule, next) = (job.schedule_display(), jobs.next_run(&job));
    jobs.print_schedule_change(&job, &format!("is changed: {schedule}, next run {next}"));
    Ok(())
}

/// The keys of the file that are given; an empty text takes one away.
fn changed_members(jobs: &CronJobs<'_>, given: &JobOptions) -> Result<Map<String, Value>, Failure> {
    let mut keys = Map::new();
    for (key, text) in [
        ("deliver", &given.deliver),
        ("model", &given.model),
        ("provider", &given.provider),
        ("script", &given.script),
    ] {
        if let Some(text) = text {
            let value = Some(text).filter(|text| !text.is_empty());
            keys.insert(key.into(), json!(value));
        }
    }
    if let Some(directory) = &given.workdir {
        let value = match directory.as_str() {
            "" => Value::Null,
            directory => options::resolve_workdir(directory)?.into(),
        };
        keys.insert("workdir".into(), value);
    }
    if let Some(no_agent) = given.no_agent {
        keys.insert("no_agent".into(), no_agent.into());
    }
    for (key, given, names) in [
        ("skills", &given.skills, non_empty(&given.skills)),
        (
            "enabled_toolsets",
            &given.toolsets,
            non_empty(&given.toolsets),
        ),
        (
            "context_from",
            &given.context_from,
            options::resolve_context_jobs(jobs, given)?,
        ),
    ] {
        if !given.is_empty() {
            let value = Some(names).filter(|names| !names.is_empty() || key == "skills");
            keys.insert(key.into(), json!(value));
        }
    }
    Ok(keys)
}

fn non_empty(names: &[String]) -> Vec<String> {
    let filled = names.iter().filter(|name| !name.is_empty());
    filled.cloned().collect()
}
