//! `hermes cron create`.

use hermes_store::cron::{CronFile, NewJob, Schedule};

use super::{CronJobs, options};
use crate::{cli::CronCreateArgs, failure::Failure};

pub(super) fn run(jobs: &CronJobs<'_>, args: &CronCreateArgs) -> Result<(), Failure> {
    let given = &args.options;
    let prompt = args.prompt.as_deref().unwrap_or_default().trim();
    let no_agent = given.no_agent.unwrap_or_default();
    if prompt.is_empty() && given.skills.is_empty() && !no_agent {
        return Err(Failure::usage("a job needs a prompt")
            .hint("say after the schedule what is to be done, or name a skill with `--skill`"));
    }
    options::check_options(jobs, given)?;
    let workdir = given
        .workdir
        .as_deref()
        .map(options::resolve_workdir)
        .transpose()?;
    let new = NewJob {
        id: args.id.clone(),
        name: given.name.clone(),
        repeat: given.repeat.map(options::repeat),
        deliver: given.deliver.clone(),
        skills: given.skills.clone(),
        model: given.model.clone(),
        provider: given.provider.clone(),
        script: given.script.clone(),
        no_agent,
        context_from: options::resolve_context_jobs(jobs, given)?,
        enabled_toolsets: (!given.toolsets.is_empty()).then(|| given.toolsets.clone()),
        workdir,
        ..NewJob::new(prompt, Schedule::parse(&args.schedule, &jobs.now)?)
    };
    let made = CronFile::change(&jobs.context.home, &jobs.now, |file| {
        file.create(new, &jobs.now)
    })?;
    let (schedule, next) = (made.schedule_display(), jobs.next_run(&made));
    jobs.print_schedule_change(&made, &format!("is made: {schedule}, next run {next}"));
    super::status::warn_without_ticker(jobs);
    Ok(())
}
