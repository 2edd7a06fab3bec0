//! `hermes cron …`: jobs that run later or again and again.

use hermes_config::Settings;
use hermes_store::cron::{CronError, CronFile, Job, time_zone};
use jiff::Zoned;
use serde_json::json;

use crate::{cli::CronCommand, context::Context, failure::Failure, output::printable};

mod edit;
mod list;
mod runs;
mod status;
mod tick;

pub(super) fn run(context: &Context, command: CronCommand) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let jobs = CronJobs {
        context,
        settings: &settings,
        now: Zoned::now().with_time_zone(time_zone(&settings)),
    };
    match command {
        CronCommand::Create(args) => edit::run_create(&jobs, &args),
        CronCommand::List(args) => list::run(&jobs, &args),
        CronCommand::Edit(args) => edit::run(&jobs, &args),
        CronCommand::Pause(args) => edit::pause(&jobs, &args),
        CronCommand::Resume(args) => edit::resume(&jobs, &args),
        CronCommand::Run(args) => edit::run_switch(&jobs, &args),
        CronCommand::Remove(args) => edit::remove(&jobs, &args),
        CronCommand::Status => status::run(&jobs),
        CronCommand::Runs(args) => runs::run(&jobs, &args),
        CronCommand::Tick => tick::run(&jobs),
    }
}

/// The jobs of the home, at one moment.
struct CronJobs<'a> {
    context: &'a Context,
    settings: &'a Settings,
    /// In the zone of the home's schedules.
    now: Zoned,
}

impl CronJobs<'_> {
    fn load(&self) -> Result<CronFile, Failure> {
        Ok(CronFile::load(&self.context.home)?)
    }

    /// Changes one job. One that is not there is told before anything is touched.
    fn change(
        &self,
        reference: &str,
        change: impl FnOnce(&mut CronFile) -> Result<Job, CronError>,
    ) -> Result<Job, Failure> {
        let file = self.load()?;
        file.find(reference).map_err(with_hint)?;
        let changed = CronFile::change(&self.context.home, &self.now, change);
        changed.map_err(with_hint)
    }

    /// Says what was done to a job.
    fn print_change(&self, job: &Job, what: &str) {
        let output = self.context.output;
        output.note(format!("{} (`{}`) {what}", printable(job.name()), job.id()));
        output.json(json!({"job": job.as_json()}));
    }

    /// Says what was done to a job, and what its schedule was understood to mean.
    fn print_schedule_change(&self, job: &Job, what: &str) {
        let output = self.context.output;
        output.note(format!("{} (`{}`) {what}", printable(job.name()), job.id()));
        let understood = job.explain(&self.now);
        if let Some(understood) = &understood {
            let times: Vec<String> = understood.next.iter().map(shown_time).collect();
            output.note(format!(
                "It runs {}; next: {}.",
                understood.words,
                if times.is_empty() {
                    "never".to_owned()
                } else {
                    times.join(", ")
                }
            ));
        }
        let understood = understood.map(|understood| understood.to_json());
        output.json(json!({"job": job.as_json(), "understood": understood}));
    }

    /// When it runs next, for people.
    fn next_run(&self, job: &Job) -> String {
        let next = job.next_run_at(&self.now);
        next.map_or_else(|| "never".into(), |next| shown_time(&next))
    }
}

fn with_hint(error: CronError) -> Failure {
    let is_unknown = matches!(error, CronError::NoSuchJob { .. });
    let failure = Failure::from(error);
    if is_unknown {
        return failure.hint("`hermes cron list --all` shows what there is");
    }
    failure
}

fn shown_time(time: &Zoned) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}
