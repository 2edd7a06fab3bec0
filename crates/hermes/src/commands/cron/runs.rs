//! `hermes cron runs`.

use hermes_store::cron::{CronError, Execution, ExecutionStatus, Executions};
use serde_json::{Value, json};

use super::CronJobs;
use crate::{
    cli::CronRunsArgs,
    failure::Failure,
    output::{Table, Tone},
};

pub(super) fn run(jobs: &CronJobs<'_>, args: &CronRunsArgs) -> Result<(), Failure> {
    let file = jobs.load()?;
    let job = args.job.as_deref().map(|job| match file.find(job) {
        Ok(job) => Ok(job.id().to_owned()),
        // A job that is over is gone, but its runs are not.
        Err(CronError::NoSuchJob { reference }) => Ok(reference),
        Err(error) => Err(error),
    });
    let job = job.transpose()?;
    let runs = jobs.context.block_on(async {
        match Executions::for_reading(&jobs.context.home) {
            Some(executions) => Ok(executions.list(job.as_deref(), args.limit).await?),
            None => Ok(Vec::new()),
        }
    })?;
    let output = jobs.context.output;
    if runs.is_empty() {
        output.note("No run is recorded yet.");
    } else {
        let mut table = Table::new(&["CLAIMED", "JOB", "STATUS", "SOURCE", "ERROR"]);
        for run in &runs {
            let job = file.jobs.iter().find(|job| job.id() == run.job_id);
            table.row([
                (format_minutes(&run.claimed_at), Tone::Plain),
                (
                    job.map_or(&*run.job_id, |job| job.name()).to_owned(),
                    Tone::Strong,
                ),
                (run.status.as_str().to_owned(), tone(run.status)),
                (run.source.clone(), Tone::Plain),
                (run.error.clone().unwrap_or_default(), Tone::Plain),
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
    })
}
