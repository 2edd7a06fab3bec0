//! The core of the state once more, on PostgreSQL 18.

#[path = "state/approvals.rs"]
mod approvals;
#[path = "state/audit.rs"]
mod audit;
#[path = "state/cron.rs"]
mod cron;
#[path = "state/hub_events.rs"]
mod hub_events;
#[path = "state/runs.rs"]
mod runs;
#[path = "state/tenants.rs"]
mod tenants;

use super::state::{
    StateFixture, entry, job_id, new_run, next_millisecond, or_lease_lost, tenant_id,
};

#[tokio::test]
async fn the_server_is_the_one_that_these_tests_are_for() {
    let fresh = StateFixture::new().await;
    let database = fresh.database.as_ref().unwrap();
    let version = database.run_sql("SHOW server_version_num");
    assert!(version.starts_with("18"), "{version}");
}
