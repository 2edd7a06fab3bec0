//! Leases in the database: one holder, and nothing from anybody else.

use std::time::Duration;

use hermes_hub::{
    TenantId,
    api_types::{RunTrigger, Time},
    storage::{
        audit::NewAuditEntry,
        state::{
            FireOutcome, LEASE_LOST, NewFire, NewRun, RunChange, RunUpdate, State, StateError,
        },
    },
};
use hermes_testkit::eventually_some;
use serde_json::{Map, json};

use super::cluster::{Cluster, TIMEOUT, open_state};
use crate::agent_harness::make_tenant;

fn is_lease_lost<T: std::fmt::Debug>(result: &Result<T, StateError>) -> bool {
    matches!(result, Err(StateError::Conflict { reason, .. }) if *reason == LEASE_LOST)
}

async fn tenant(state: &dyn State, id: &str) -> TenantId {
    let tenant = TenantId::parse(id).unwrap();
    make_tenant(state, &tenant).await;
    tenant
}

async fn queue_run(state: &dyn State, tenant: &TenantId) -> hermes_hub::RunId {
    let id = hermes_hub::RunId::random().unwrap();
    let run = NewRun {
        id: id.clone(),
        tenant: tenant.clone(),
        trigger: RunTrigger::Api,
        request: json!({"input": "Hi"}),
        job: None,
        metadata: Map::new(),
        timeout_seconds: None,
        retry_interrupted: false,
    };
    state
        .create_run(run, 10, NewAuditEntry::by_hub("create_run"))
        .await
        .unwrap();
    id
}

/// Takes a lease as soon as it is free.
async fn take(state: &dyn State, tenant: &TenantId, lasting: Duration) -> u64 {
    let taken = eventually_some(TIMEOUT, async || {
        let tenants = std::slice::from_ref(tenant);
        let granted = state.claim_leases(tenants, lasting).await.unwrap();
        granted.first().map(|lease| lease.epoch.0)
    });
    taken.await.expect("the lease does not get free")
}

const LONG: Duration = Duration::from_mins(10);

#[tokio::test(flavor = "multi_thread")]
async fn of_nodes_that_claim_one_lease_at_once_one_gets_it() {
    let cluster = Cluster::new().await;
    let one = open_state(&cluster.url, "n1").await;
    let other = open_state(&cluster.url, "n2").await;
    for round in 0..10 {
        let tenant = tenant(&*one, &format!("t{round}")).await;
        // `make_tenant` has taken it for the node that made it.
        let held = one.held_epoch(&tenant).unwrap();
        one.release_leases(&[hermes_hub::storage::state::GrantedLease {
            tenant: tenant.clone(),
            epoch: held,
        }])
        .await
        .unwrap();
        let tenants = [tenant];
        let (first, second) = tokio::join!(
            one.claim_leases(&tenants, LONG),
            other.claim_leases(&tenants, LONG)
        );
        let granted = first.unwrap().len() + second.unwrap().len();
        assert_eq!(granted, 1, "in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wakes_after_the_end_of_its_lease_writes_nothing() {
    let cluster = Cluster::new().await;
    let paused = open_state(&cluster.url, "n1").await;
    let next = open_state(&cluster.url, "n2").await;
    let tenant = tenant(&*paused, "acme").await;
    let run = queue_run(&*paused, &tenant).await;
    let first = take(&*paused, &tenant, LONG).await;
    // It claims a run, and then stands still until the lease is over.
    paused.claim_run(&tenant, 4).await.unwrap().unwrap();
    let ended = "UPDATE leases SET expires_at = clock_timestamp()";
    cluster.database.run_sql(ended);
    let second = take(&*next, &tenant, LONG).await;
    assert!(second > first);
    let adopted = next.adopt_runs(&tenant).await.unwrap();
    assert_eq!(adopted.len(), 1);
    assert_eq!(adopted[0].node.as_deref(), Some("n2"));

    // It wakes up, and does not know yet.
    let update = || RunUpdate {
        change: RunChange {
            output: Some("old".into()),
            ..RunChange::default()
        },
        ..RunUpdate::default()
    };
    assert!(is_lease_lost(
        &paused.update_run(&tenant, &run, update()).await
    ));
    assert!(is_lease_lost(
        &paused.requeue_run(&tenant, &run, "x", None).await
    ));
    assert!(is_lease_lost(&paused.set_job_times(&tenant, &[]).await));
    assert!(is_lease_lost(&paused.observe_generation(&tenant, 1).await));
    queue_run(&*paused, &tenant).await;
    assert!(is_lease_lost(&paused.claim_run(&tenant, 4).await));
    let held = [hermes_hub::storage::state::GrantedLease {
        tenant: tenant.clone(),
        epoch: hermes_hub::storage::state::LeaseEpoch(first),
    }];
    assert!(paused.renew_leases(&held, LONG).await.unwrap().is_empty());
    paused.release_leases(&held).await.unwrap();
    let holder = next.lease_holder(&tenant).await.unwrap().unwrap();
    assert_eq!((holder.node.as_str(), holder.epoch.0), ("n2", second));
    next.update_run(&tenant, &run, update()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_keeps_no_job_of_another_tenant_from_being_fired() {
    let cluster = Cluster::new().await;
    let state = open_state(&cluster.url, "n1").await;
    let next = open_state(&cluster.url, "n2").await;
    let (lost, held) = (tenant(&*state, "lost").await, tenant(&*state, "held").await);
    take(&*state, &lost, Duration::from_millis(300)).await;
    take(&*next, &lost, LONG).await;
    let fire = |tenant: &TenantId, job: &str| NewFire {
        tenant: tenant.clone(),
        job: hermes_hub::JobId::parse(job).unwrap(),
        due: Time::from_millis(1_000),
        next: None,
        outcome: Err("the tenant is blocked".into()),
        entry: NewAuditEntry::by_hub("cron_fire"),
    };
    let fires = vec![fire(&lost, "one"), fire(&lost, "two"), fire(&held, "one")];
    let outcomes = state.record_fires(fires).await.unwrap();
    let refused = FireOutcome::LeaseLost;
    assert_eq!(outcomes, [refused.clone(), refused, FireOutcome::Fired]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_ask_for_needs_no_lease() {
    let cluster = Cluster::new().await;
    let holder = open_state(&cluster.url, "n1").await;
    let other = open_state(&cluster.url, "n2").await;
    let tenant = tenant(&*holder, "acme").await;
    let run = queue_run(&*other, &tenant).await;
    holder.claim_run(&tenant, 4).await.unwrap().unwrap();
    let stop = RunUpdate {
        change: RunChange {
            status: Some(hermes_hub::api_types::RunStatus::Stopping),
            ..RunChange::default()
        },
        entry: Some(NewAuditEntry::by_hub("stop_run")),
        ..RunUpdate::default()
    };
    other.update_run(&tenant, &run, stop).await.unwrap();
    assert_eq!(
        holder.stopping_runs().await.unwrap(),
        [(tenant.clone(), run)]
    );
    assert!(other.stopping_runs().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_work_is_offered_to_nodes_until_one_has_it() {
    let cluster = Cluster::new().await;
    let one = open_state(&cluster.url, "n1").await;
    let other = open_state(&cluster.url, "n2").await;
    let tenant = tenant(&*one, "acme").await;
    queue_run(&*one, &tenant).await;
    let waiting = async |state: &dyn State| state.tenants_with_work(10).await.unwrap();
    assert!(waiting(&*one).await.is_empty());
    assert!(waiting(&*other).await.is_empty());
    let epoch = one.held_epoch(&tenant).unwrap();
    let held = [hermes_hub::storage::state::GrantedLease {
        tenant: tenant.clone(),
        epoch,
    }];
    one.release_leases(&held).await.unwrap();
    one.forget_leases(std::slice::from_ref(&tenant));
    assert_eq!(waiting(&*one).await, std::slice::from_ref(&tenant));
    assert_eq!(waiting(&*other).await, std::slice::from_ref(&tenant));
    take(&*other, &tenant, LONG).await;
    assert!(waiting(&*one).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_that_are_made_at_once_are_all_made_each_under_one_lease() {
    let cluster = Cluster::new().await;
    let node = cluster.node("n1").await;
    // The node also looks for tenants with work by itself: it must not take a lease twice.
    let made = (0..60).map(|number| {
        let tenant = json!({"id": format!("t{number}"), "start": false});
        node.site.tenant(tenant)
    });
    futures::future::join_all(made).await;
    let epochs = "SELECT DISTINCT epoch FROM leases";
    assert_eq!(cluster.database.run_sql(epochs), "1");
}
