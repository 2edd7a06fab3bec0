//! `hermes cron list`.

use hermes_store::cron::{Job, JobState, Repeat};
use serde_json::json;

use super::{CronJobs, shown_time};
use crate::{
    cli::CronListArgs,
    failure::Failure,
    output::{Table, Tone},
};

pub(super) fn run(jobs: &CronJobs<'_>, args: &CronListArgs) -> Result<(), Failure> {
    let file = jobs.load()?;
    let takes_part = |job: &&Job| job.is_enabled() && job.state() == JobState::Scheduled;
    let listed: Vec<&Job> = file
        .jobs
        .iter()
        .filter(|job| args.all || takes_part(job))
        .collect();
    let output = jobs.context.output;
    let hidden = file.jobs.len() - listed.len();
    if listed.is_empty() {
        output.note(match hidden {
            0 => "There is no cron job; `hermes cron create` makes one.".to_owned(),
            _ => "No cron job is waiting.".to_owned(),
        });
    } else {
        output.table(&table(jobs, &listed));
    }
    if hidden > 0 {
        output.note(format!(
            "{hidden} paused or finished: `hermes cron list --all`"
        ));
    }
    let listed: Vec<_> = listed.iter().map(|job| job.as_json()).collect();
    output.json(json!({"jobs": listed}));
    Ok(())
}

fn table(jobs: &CronJobs<'_>, listed: &[&Job]) -> Table {
    let mut table = Table::new(&[
        "ID", "NAME", "SCHEDULE", "NEXT RUN", "LAST RUN", "DELIVER", "DELIVERY", "STATE",
    ]);
    for job in listed {
        let last = job.last_run_at(&jobs.now).map(|last| shown_time(&last));
        let text = |key: &str| {
            job.get(key)
                .and_then(|value| value.as_str())
                .unwrap_or_default()
        };
        let (last, last_tone) = match (last, text("last_status")) {
            (Some(last), "error") => (format!("{last} failed"), Tone::Bad),
            (Some(last), _) => (last, Tone::Plain),
            (None, _) => ("-".to_owned(), Tone::Faint),
        };
        let (state, tone) = state(job);
        let next = match job.state() {
            JobState::Scheduled if job.is_enabled() => jobs.next_run(job),
            _ => "-".to_owned(),
        };
        table.row([
            (job.id().to_owned(), Tone::Strong),
            (job.name().to_owned(), Tone::Plain),
            (schedule(job), Tone::Plain),
            (next, Tone::Plain),
            (last, last_tone),
            (text("deliver").to_owned(), Tone::Plain),
            delivery(text("last_delivery_status")),
            (state, tone),
        ]);
    }
    table
}

/// What became of the last message, which is another thing than how the run went.
fn delivery(status: &str) -> (String, Tone) {
    match status {
        "" | "none" => ("-".to_owned(), Tone::Faint),
        "delivered" => (status.to_owned(), Tone::Good),
        "failed" => (status.to_owned(), Tone::Bad),
        _ => (status.to_owned(), Tone::Warning),
    }
}

fn schedule(job: &Job) -> String {
    let display = job.schedule_display();
    match job.repeat() {
        (Repeat::Times(times), completed) if times > 1 => {
            format!("{display} ({completed} of {times})")
        }
        _ => display,
    }
}

fn state(job: &Job) -> (String, Tone) {
    match job.state() {
        JobState::Scheduled if !job.is_enabled() => ("disabled".into(), Tone::Faint),
        JobState::Scheduled => ("scheduled".into(), Tone::Good),
        JobState::Paused => {
            let reason = job.get("paused_reason").and_then(|reason| reason.as_str());
            let text = reason.map_or_else(|| "paused".into(), |reason| format!("paused: {reason}"));
            (text, Tone::Faint)
        }
        other @ JobState::Completed => (other.as_str().into(), Tone::Faint),
        other @ JobState::Error => (other.as_str().into(), Tone::Bad),
    }
}
