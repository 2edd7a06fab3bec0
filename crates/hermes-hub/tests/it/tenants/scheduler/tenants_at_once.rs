//! Much at once: files that change while they are read, and one tenant of many that cannot be read.

use std::sync::Arc;

use super::ManualClock;
use crate::agent_harness::AgentHarness;

/// How many jobs a tenant gets at once.
const JOBS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn jobs_that_are_written_at_once_all_have_their_due_times() {
    let world = Arc::new(AgentHarness::new().await);
    let time = ManualClock::at("2026-11-15T08:00:00Z");
    let clock = world.start_scheduler(&time);
    for number in 0..20 {
        let tenant = world.tenant(&format!("t{number}")).await;
        let mut writes = tokio::task::JoinSet::new();
        for job in 0..JOBS {
            let (world, clock) = (Arc::clone(&world), Arc::clone(&clock));
            let (tenant, time) = (tenant.clone(), time.clone());
            // As for a request: once before it is acknowledged, and once after.
            writes.spawn(async move {
                let id = format!("job-{job}");
                tokio::task::block_in_place(|| world.write_job(&tenant, &id, "0 9 * * *", &time));
                clock.store_changed_jobs(&tenant).await.unwrap();
                clock.reload_jobs(&tenant).await.unwrap();
            });
        }
        writes.join_all().await;
        let times = world.state.job_times(&tenant).await.unwrap();
        assert_eq!(times.len(), JOBS, "of {tenant}: {times:?}");
    }
    clock.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_cannot_be_read_does_not_keep_others_from_their_jobs() {
    let world = AgentHarness::new().await;
    let time = ManualClock::at("2026-11-15T08:00:00Z");
    let unreadable = world.tenant("a").await;
    let other = world.tenant("b").await;
    let late = world.write_job(&unreadable, "daily", "0 9 * * *", &time);
    let daily = world.write_job(&other, "daily", "0 9 * * *", &time);
    let clock = world.start_scheduler(&time);
    for tenant in [&unreadable, &other] {
        clock.reload_jobs(tenant).await.unwrap();
    }
    world.tenancy.make_unreadable(&unreadable);
    time.set("2026-11-15T09:00:01Z");
    world.wait_for_fires(&other, &daily, 1).await;
    assert!(world.fires(&unreadable, &late).await.is_empty());
    world.tenancy.make_readable(&unreadable);
    world.wait_for_fires(&unreadable, &late, 1).await;
    clock.close().await;
}
