//! `hermes cron runs`.

use hermes_store::cron::{CronError, DeliveryStatus, Execution, ExecutionStatus, Executions};
use serde_json::{Value, json};

use super::CronJobs;
use crate::{
    cli::CronRunsArgs,
    failure::Failure,
    output::{Table, Tone},
};

pub(super) fn run(jobs: &CronJobs<'_>, args: &CronRunsArgs) -> Result<(), Failure> {
    let file = jobs.load()?;
    let mut unknown = None;
    let job = args.job.as_deref().map(|job| match file.find(job) {
        Ok(job) => Ok(job.id().to_owned()),
        // A job that is over is gone, but its runs are not.
        Err(error @ CronError::NoSuchJob { .. }) => {
            unknown = Some(error);
            Ok(job.to_owned())
        }
        Err(error) => Err(error),
    });
    let job = job.transpose()?;
    let runs = jobs.context.block_on(async {
        match Executions::for_reading(&jobs.context.home) {
            Some(executions) => Ok(executions.list(job.as_deref(), args.limit).await?),
            None => Ok(Vec::new()),
        }
    })?;
    if let Some(error) = unknown.filter(|_| runs.is_empty()) {
        return Err(super::with_hint(error));
    }
    let output = jobs.context.output;
    if runs.is_empty() {
        output.note("No run is recorded yet.");
    } else {
        let mut table = Table::new(&["CLAIMED", "JOB", "STATUS", "DELIVERY", "SOURCE", "ERROR"]);
        for run in &runs {
            let job = file.jobs.iter().find(|job| job.id() == run.job_id);
            table.row([
                (format_minutes(&run.claimed_at), Tone::Plain),
                (
                    job.map_or(&*run.job_id, |job| job.name()).to_owned(),
                    Tone::Strong,
                ),
                (run.status.as_str().to_owned(), tone(run.status)),
                (delivery_words(run), delivery_tone(run.delivery_status())),
                (run.source.clone(), Tone::Plain),
                (run_problem(run), Tone::Plain),
            ]);
        }
        output.table(&table);
    }
    output.json(json!({"runs": runs.iter().map(run_json).collect::<Vec<_>>()}));
    Ok(())
}

/// `2026-03-04 05:06` of an ISO time.
fn format_minutes(iso: &str) -> String {
    iso.chars().take(16).collect::<String>().replace('T', " ")
}

fn tone(status: ExecutionStatus) -> Tone {
    match status {
        ExecutionStatus::Claimed | ExecutionStatus::Running => Tone::Warning,
        ExecutionStatus::Completed => Tone::Good,
        ExecutionStatus::Failed => Tone::Bad,
        ExecutionStatus::Unknown => Tone::Faint,
    }
}

/// `delivered (telegram: 17)`; empty if nothing was to be delivered.
fn delivery_words(run: &Execution) -> String {
    let status = run.delivery_status();
    if status == DeliveryStatus::NotNeeded {
        return String::new();
    }
    let ids: Vec<String> = run
        .deliveries
        .iter()
        .filter_map(|delivery| {
            let id = delivery.message_id.as_ref()?;
            Some(format!("{}: {id}", delivery.target))
        })
        .collect();
    if ids.is_empty() {
        return status.as_str().to_owned();
    }
    format!("{} ({})", status.as_str(), ids.join(", "))
}

fn delivery_tone(status: DeliveryStatus) -> Tone {
    match status {
        DeliveryStatus::NotNeeded => Tone::Plain,
        DeliveryStatus::Pending | DeliveryStatus::Partial => Tone::Warning,
        DeliveryStatus::Delivered => Tone::Good,
        DeliveryStatus::Failed => Tone::Bad,
    }
}

/// Why the run failed, and why its message was not delivered.
fn run_problem(run: &Execution) -> String {
    let undelivered = run.deliveries.iter().filter_map(|delivery| {
        let error = delivery.error.as_ref()?;
        Some(format!("{}: {error}", delivery.target))
    });
    let problems: Vec<String> = run.error.iter().cloned().chain(undelivered).collect();
    problems.join("; ")
}

fn run_json(run: &Execution) -> Value {
    json!({
        "id": run.id,
        "job_id": run.job_id,
        "source": run.source,
        "status": run.status.as_str(),
        "pid": run.pid,
        "claimed_at": run.claimed_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "error": run.error,
        "delivery_status": run.delivery_status().as_str(),
        "deliveries": run.deliveries,
    })
}
