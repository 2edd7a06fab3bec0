//! `hermes cron edit`.

use hermes_store::cron::{JobChanges, Schedule};
use serde_json::{Map, Value, json};

use super::{Jobs, options};
use crate::{
    cli::{EditArgs, JobOptions},
    failure::Failure,
};

pub(super) fn run(jobs: &Jobs<'_>, args: &EditArgs) -> Result<(), Failure> {
    let given = &args.options;
    options::check(jobs, given)?;
    let schedule = args.schedule.as_deref();
    let changes = JobChanges {
        name: given.name.clone(),
        prompt: args.prompt.clone(),
        schedule: schedule
            .map(|text| Schedule::parse(text, &jobs.now))
            .transpose()?,
        repeat: given.repeat.map(options::repeat),
        others: others(jobs, given)?,
    };
    if changes == JobChanges::default() {
        return Err(Failure::usage("nothing to change was named")
            .hint("`hermes cron edit --help` lists what can be changed"));
    }
    let job = jobs.change(&args.job, |file| file.update(&args.job, changes, &jobs.now))?;
    let (schedule, next) = (job.schedule_display(), jobs.next_run(&job));
    jobs.tell_schedule(&job, &format!("is changed: {schedule}, next run {next}"));
    Ok(())
}

/// The keys of the file that are given; an empty text takes one away.
fn others(jobs: &Jobs<'_>, given: &JobOptions) -> Result<Map<String, Value>, Failure> {
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
            directory => options::workdir(directory)?.into(),
        };
        keys.insert("workdir".into(), value);
    }
    if let Some(no_agent) = given.no_agent {
        keys.insert("no_agent".into(), no_agent.into());
    }
    for (key, given, names) in [
        ("skills", &given.skills, filled(&given.skills)),
        ("enabled_toolsets", &given.toolsets, filled(&given.toolsets)),
        (
            "context_from",
            &given.context_from,
            options::context_from(jobs, given)?,
        ),
    ] {
        if !given.is_empty() {
            let value = Some(names).filter(|names| !names.is_empty() || key == "skills");
            keys.insert(key.into(), json!(value));
        }
    }
    Ok(keys)
}

fn filled(names: &[String]) -> Vec<String> {
    let filled = names.iter().filter(|name| !name.is_empty());
    filled.cloned().collect()
}
