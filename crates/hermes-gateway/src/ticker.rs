//! The cron scheduler: checks for due jobs every minute, and immediately when the job file changes. Under a Hub, which
//! schedules jobs itself, it only prunes old runs.

use std::{path::PathBuf, time::Duration};

use hermes_agent::cron::Claimed;
use hermes_store::cron::{beat, time_zone};
use jiff::Zoned;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::{
    gateway::{Direction, Gateway},
    runs::{Errand, Source},
};

const TICK: Duration = Duration::from_mins(1);
/// How often the job file is checked, so that `hermes cron run` does not wait for a minute.
const LOOK: Duration = Duration::from_secs(1);

/// Runs due jobs until it is stopped.
pub async fn run(gateway: &Gateway, stop: &CancellationToken) {
    let file = gateway.home().path().join("cron").join("jobs.json");
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next = Instant::now();
    let mut seen = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = looks.tick() => {}
        }
        let written = stamp(&file).await;
        if Instant::now() < next && written == seen {
            continue;
        }
        seen = written;
        let is_own = *gateway.direction() == Direction::Own;
        if Instant::now() >= next {
            next = Instant::now() + TICK;
            tidy(gateway).await;
            if is_own {
                give_sign(gateway).await;
            }
        }
        // A claimed run that is not started would be lost.
        if is_own && gateway.runs().takes_new() {
            tick(gateway).await;
        }
    }
}

/// Starts a run for every due job.
async fn tick(gateway: &Gateway) {
    let zone = time_zone(&gateway.agent().settings());
    let now = Zoned::now().with_time_zone(zone);
    let claimed = match gateway.runner().claim_due(&now).await {
        Ok(claimed) => claimed.unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, "claiming due cron jobs failed");
            return;
        }
    };
    for run in claimed {
        begin(gateway, run).await;
    }
}

async fn begin(gateway: &Gateway, claimed: Claimed) {
    let input = json!({"job_id": claimed.job().id()});
    let errand = Errand::Job(Box::new(claimed));
    let started = gateway.runs().start(errand, Source::Cron, input, None);
    if let Err(error) = started.await {
        tracing::error!(%error, "starting a cron job failed");
    }
}

async fn give_sign(gateway: &Gateway) {
    let home = gateway.home().clone();
    let beaten = tokio::task::spawn_blocking(move || beat(&home)).await;
    if let Ok(Err(error)) = beaten {
        tracing::warn!(%error, "writing the ticker heartbeat failed");
    }
}

async fn tidy(gateway: &Gateway) {
    if let Err(error) = gateway.runs().tidy().await {
        tracing::warn!(%error, "pruning old runs failed");
    }
}

/// Identifies a version of the file.
async fn stamp(file: &PathBuf) -> Option<(std::time::SystemTime, u64)> {
    let found = tokio::fs::metadata(file).await.ok()?;
    Some((found.modified().ok()?, found.len()))
}
