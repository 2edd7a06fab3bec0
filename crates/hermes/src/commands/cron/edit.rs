//! `hermes cron create`, `edit`, `pause`, `resume`, `run` and `remove`: what is said of a job, checked against the home.

use hermes_agent::cron::locate_script;
use hermes_gateway::delivery_targets::check_delivery;
use hermes_store::{
    cron::{CronFile, JobChanges, NewJob, Repeat, Schedule},
    skills::Skills,
};
use serde_json::{Map, Value, json};

use super::{CronJobs, status};
use crate::{
    cli::{CronCreateArgs, CronEditArgs, CronJobArgs, CronPauseArgs, JobOptions},
    commands::skills::suggest_skill,
    failure::Failure,
};

pub(super) fn run(jobs: &CronJobs<'_>, args: &CronEditArgs) -> Result<(), Failure> {
    let given = &args.options;
    check_options(jobs, given)?;
    let file = jobs.load()?;
    let origin = file.find(&args.job).ok().and_then(|job| job.get("origin"));
    check_deliver(jobs, given, origin)?;
    let schedule = args.schedule.as_deref();
    let changes = JobChanges {
        name: given.name.clone(),
        prompt: args.prompt.clone(),
        schedule: schedule
            .map(|text| Schedule::parse(text, &jobs.now))
            .transpose()?,
        repeat: given.repeat.map(repeat),
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
            directory => resolve_workdir(directory)?.into(),
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
            resolve_context_jobs(jobs, given)?,
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

pub(super) fn run_create(jobs: &CronJobs<'_>, args: &CronCreateArgs) -> Result<(), Failure> {
    let given = &args.options;
    let prompt = args.prompt.as_deref().unwrap_or_default().trim();
    let no_agent = given.no_agent.unwrap_or_default();
    if prompt.is_empty() && given.skills.is_empty() && !no_agent {
        return Err(Failure::usage("a job needs a prompt")
            .hint("say after the schedule what is to be done, or name a skill with `--skill`"));
    }
    check_options(jobs, given)?;
    check_deliver(jobs, given, None)?;
    let workdir = given.workdir.as_deref().map(resolve_workdir).transpose()?;
    let new = NewJob {
        id: args.id.clone(),
        name: given.name.clone(),
        repeat: given.repeat.map(repeat),
        deliver: given.deliver.clone(),
        skills: given.skills.clone(),
        model: given.model.clone(),
        provider: given.provider.clone(),
        script: given.script.clone(),
        no_agent,
        context_from: resolve_context_jobs(jobs, given)?,
        enabled_toolsets: (!given.toolsets.is_empty()).then(|| given.toolsets.clone()),
        workdir,
        ..NewJob::new(prompt, Schedule::parse(&args.schedule, &jobs.now)?)
    };
    let made = CronFile::change(&jobs.context.home, &jobs.now, |file| {
        file.create(new, &jobs.now)
    })?;
    let (schedule, next) = (made.schedule_display(), jobs.next_run(&made));
    jobs.print_schedule_change(&made, &format!("is created: {schedule}, next run {next}"));
    super::status::warn_without_ticker(jobs);
    Ok(())
}

/// Refuses targets that cannot be resolved.
fn check_deliver(
    jobs: &CronJobs<'_>,
    options: &JobOptions,
    origin: Option<&Value>,
) -> Result<(), Failure> {
    let Some(deliver) = &options.deliver else {
        return Ok(());
    };
    check_delivery(&jobs.context.home, &jobs.settings.gateway, deliver, origin).map_err(|refusal| {
        Failure::usage(refusal.to_string())
            .hint("`hermes channels list` shows the chats that are known; `local` keeps the message in the home")
    })
}

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
        skills
            .find(skill)
            .map_err(|error| suggest_skill(error.into(), &skills, skill))?;
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
        .map(|job| Ok(file.find(job).map_err(super::with_hint)?.id().to_owned()))
        .collect()
}

/// The whole path of the working directory.
pub(super) fn resolve_workdir(given: &str) -> Result<String, Failure> {
    let directory = std::path::absolute(given).ok().filter(|path| path.is_dir());
    let path = directory.and_then(|path| path.to_str().map(str::to_owned));
    path.ok_or_else(|| Failure::usage(format!("`{given}` is not a directory")))
}

pub(super) fn repeat(times: u32) -> Repeat {
    match times {
        0 => Repeat::Forever,
        times => Repeat::Times(times),
    }
}

pub(super) fn pause(jobs: &CronJobs<'_>, args: &CronPauseArgs) -> Result<(), Failure> {
    let reason = args.reason.as_deref();
    let job = jobs.change(&args.job, |file| file.pause(&args.job, reason, &jobs.now))?;
    jobs.print_change(&job, "is paused");
    Ok(())
}

pub(super) fn resume(jobs: &CronJobs<'_>, args: &CronJobArgs) -> Result<(), Failure> {
    let job = jobs.change(&args.job, |file| file.resume(&args.job, &jobs.now))?;
    jobs.print_change(
        &job,
        &format!("is resumed, next run {}", jobs.next_run(&job)),
    );
    status::warn_without_ticker(jobs);
    Ok(())
}

pub(super) fn run_switch(jobs: &CronJobs<'_>, args: &CronJobArgs) -> Result<(), Failure> {
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
