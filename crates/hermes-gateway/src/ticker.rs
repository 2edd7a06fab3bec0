//! The cron scheduler: checks for due jobs every minute, and immediately when the job file changes; and follows their
//! messages. Under a Hub, which schedules jobs itself, it starts none.

use std::{path::PathBuf, time::Duration};

use futures::future::BoxFuture;
use hermes_agent::cron::ClaimedRun;
use hermes_store::cron::{CRON_DIRECTORY, JOBS_FILE, time_zone, write_heartbeat};
use jiff::Zoned;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::{
    gateway::{ControlMode, Gateway},
    runs::{RunInput, RunSource},
};

const TICK_INTERVAL: Duration = Duration::from_mins(1);
/// How often the job file is checked, so that `hermes cron run` does not wait for a minute.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Runs due jobs until it is stopped.
pub fn run_ticker<'a>(gateway: &'a Gateway, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        let file = gateway.home().path().join(CRON_DIRECTORY).join(JOBS_FILE);
        let mut looks = tokio::time::interval(POLL_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next = Instant::now();
        let mut seen = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = looks.tick() => {}
            }
            if gateway.delivery().has_queued() {
                follow_deliveries(gateway).await;
            }
            let written = file_stamp(&file).await;
            if Instant::now() < next && written == seen {
                continue;
            }
            seen = written;
            let is_own = *gateway.control_mode() == ControlMode::Own;
            if Instant::now() >= next {
                next = Instant::now() + TICK_INTERVAL;
                prune_runs(gateway).await;
                if is_own {
                    record_heartbeat(gateway).await;
                }
            }
            // A claimed run that is not started would be lost.
            if is_own && gateway.runs().accepts_new() {
                start_due_jobs(gateway).await;
            }
        }
    })
}

/// Starts a run for every due job.
async fn start_due_jobs(gateway: &Gateway) {
    let zone = time_zone(&gateway.agent().settings());
    let now = Zoned::now().with_time_zone(zone);
    let claimed = match gateway.runner().claim_due(&now).await {
        Ok(claimed) => claimed.unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, "failed to claim due cron jobs");
            return;
        }
    };
    for run in claimed {
        start_run(gateway, run).await;
    }
}

async fn start_run(gateway: &Gateway, claimed: ClaimedRun) {
    let input = json!({"job_id": claimed.job().id()});
    let run_input = RunInput::Job(Box::new(claimed));
    let started = gateway
        .runs()
        .start(run_input, RunSource::Cron, input, None);
    if let Err(error) = started.await {
        tracing::error!(%error, "failed to start a cron job");
    }
}

/// Finds out what became of messages in the outbox.
async fn follow_deliveries(gateway: &Gateway) {
    let followed = gateway.delivery().follow_queued(gateway.runner()).await;
    if let Err(error) = followed {
        tracing::warn!(%error, "failed to follow the deliveries of cron jobs");
    }
}

async fn record_heartbeat(gateway: &Gateway) {
    let home = gateway.home().clone();
    let beaten = tokio::task::spawn_blocking(move || write_heartbeat(&home)).await;
    if let Ok(Err(error)) = beaten {
        tracing::warn!(%error, "failed to write the ticker heartbeat");
    }
}

async fn prune_runs(gateway: &Gateway) {
    if let Err(error) = gateway.runs().prune().await {
        tracing::warn!(%error, "failed to prune old runs");
    }
}

/// Identifies a version of the file.
async fn file_stamp(file: &PathBuf) -> Option<(std::time::SystemTime, u64)> {
    let metadata = tokio::fs::metadata(file).await.ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
