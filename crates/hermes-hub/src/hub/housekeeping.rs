//! Periodic work: every minute and every hour.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::Hub;
use crate::{
    api_types::{Time, UsageDay},
    auth::console_sessions::SESSION_IDLE,
    storage::{
        checkpoints::ORPHAN_AGE,
        files,
        state::{AUDIT_PORTION, StateError},
    },
};

const DAY_SECONDS: u64 = 24 * 60 * 60;
/// Longer than any client takes to read the reply of another node.
const MAX_REPLY_AGE: Duration = Duration::from_hours(24);

/// Runs until the Hub stops.
pub(super) async fn run_housekeeping(hub: Hub) {
    let mut minutes = interval(Duration::from_mins(1));
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut count: u64 = 0;
    loop {
        tokio::select! {
            () = hub.shutdown().cancelled() => return,
            _ = minutes.tick() => {}
        }
        let done = async {
            run_minutely(&hub).await?;
            if count.is_multiple_of(60) {
                run_hourly(&hub).await?;
            }
            Ok::<_, StateError>(())
        };
        if let Err(error) = done.await {
            tracing::warn!(%error, "housekeeping failed; retrying in a minute");
        }
        count += 1;
    }
}

async fn run_minutely(hub: &Hub) -> Result<(), StateError> {
    hub.log_suppressed_refusals();
    hub.authenticator().store_last_used().await?;
    hub.state().record_heads().await?;
    let idle = Duration::from_secs(hub.settings().mcp.session_idle_seconds);
    hub.state()
        .end_idle_mcp_sessions(Time::now().before(idle))
        .await?;
    hub.state()
        .end_old_console_sessions(Time::now().before(SESSION_IDLE))
        .await?;
    hub.state().index_audit(AUDIT_PORTION).await
}

async fn run_hourly(hub: &Hub) -> Result<(), StateError> {
    let settings = hub.settings();
    let days_ago =
        |days: u64| Time::now().before(Duration::from_secs(days.saturating_mul(DAY_SECONDS)));
    hub.state().forget_keys(days_ago(1)).await?;
    hub.state().forget_commands().await?;
    hub.state()
        .prune_audit(days_ago(settings.audit.retention_days))
        .await?;
    hub.state()
        .forget_runs(days_ago(settings.runs.retention_days))
        .await?;
    hub.state()
        .forget_fires(days_ago(settings.runs.retention_days))
        .await?;
    let retention = days_ago(settings.event_retention_days);
    hub.state().forget_hub_events(retention).await?;
    hub.state().forget_deliveries(retention).await?;
    hub.state()
        .forget_limit_days(UsageDay::of(days_ago(1)))
        .await?;
    empty_trash(hub, days_ago(settings.tenants.trash_days)).await;
    clean_objects(hub, days_ago(settings.tenants.trash_days)).await;
    hub.check_homes().await?;
    super::provisioning::purge_overdue(hub, days_ago(settings.tenants.restore_days)).await
}

/// Deletes files from the trash that were removed before this time.
async fn empty_trash(hub: &Hub, before: Time) {
    let trash = hub.settings().data_dir.join("trash");
    let emptied = tokio::task::spawn_blocking(move || {
        if trash.is_dir() {
            files::empty_trash(&trash, before.timestamp())?;
        }
        Ok::<_, std::io::Error>(())
    });
    if let Ok(Err(error)) = emptied.await {
        tracing::warn!(%error, "failed to empty the trash");
    }
}

/// Deletes from object storage what nobody refers to any more.
async fn clean_objects(hub: &Hub, before: Time) {
    let unread = Time::now().before(MAX_REPLY_AGE);
    super::spilled_replies::forget_unread(hub, unread).await;
    if let Some(objects) = &hub.files().objects {
        if let Err(error) = objects.index.empty_share_trash(before).await {
            tracing::warn!(%error, "failed to empty the trash of shares");
        }
        if let Err(error) = objects.blobs.remove_unused().await {
            tracing::warn!(%error, "failed to delete unused blobs; retrying in an hour");
        }
    }
    let Some(checkpoints) = hub.checkpoints() else {
        return;
    };
    if let Err(error) = checkpoints.remove_abandoned().await {
        tracing::warn!(%error, "failed to delete the checkpoints of deleted tenants; retrying in an hour");
    }
    match checkpoints.remove_orphans(ORPHAN_AGE).await {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "deleted leftovers of unfinished checkpoints"),
        Err(error) => {
            tracing::warn!(%error, "failed to delete leftovers of unfinished checkpoints; retrying in an hour");
        }
    }
}
