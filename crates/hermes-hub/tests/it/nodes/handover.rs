//! Tenants that are handed over: while requests come, when nobody needs them, and when a restore takes longer than a
//! lease.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use hermes_hub::{
    Problem, TenantId,
    storage::state::State,
    tenants::leases::{HomeCheckpoints, LeaseEnd, LeaseOptions, LeaseOwner, Leases, SharedHomes},
};
use hermes_testkit::{eventually, eventually_some};
use serde_json::json;
use tokio::{sync::Semaphore, task::JoinSet};

use super::cluster::{Cluster, Node, TIMEOUT, open_state};
use crate::agent_harness::make_tenant;

/// Writes a file again and again, on both nodes, until it is over. Returns the last number that was written.
async fn write_until(is_over: &AtomicBool, nodes: [&Node; 2]) -> u64 {
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        number += 1;
        let file = json!({"path": "state.txt", "content": number.to_string()});
        let node = nodes[usize::try_from(number % 2).unwrap()];
        let written = node.site.put("/v1/tenants/acme/files/content", &file).await;
        assert!(
            (200..300).contains(&written.status),
            "write {number} was refused: {}",
            written.text
        );
    }
    number
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_refused_while_a_node_is_drained() {
    let cluster = Cluster::new().await;
    let (one, other) = cluster.holder_and_other("acme").await;
    let is_over = AtomicBool::new(false);
    let draining = async {
        // In the middle of writes.
        let begun = eventually_some(TIMEOUT, async || {
            let read = one
                .site
                .get("/v1/tenants/acme/files/content?path=state.txt");
            (read.await.status == 200).then_some(())
        });
        begun.await.expect("nothing is written");
        let drained = other.site.post("/v1/nodes/n1/drain", &json!({})).await;
        assert_eq!(drained.status, 202, "{}", drained.text);
        let moved = eventually_some(TIMEOUT, async || {
            (other.holder("acme").await.as_deref() == Some("n2")).then_some(())
        });
        moved.await.expect("the tenant stays");
        is_over.store(true, Ordering::Relaxed);
    };
    let (last, ()) = tokio::join!(write_until(&is_over, [&one, &other]), draining);
    for node in [&one, &other] {
        let read = node
            .site
            .get("/v1/tenants/acme/files/content?path=state.txt");
        let read = read.await.expect(200);
        assert_eq!(read["content"], last.to_string());
    }
}

async fn tenant_without_lease(state: &dyn State) -> TenantId {
    let tenant = TenantId::parse("acme").unwrap();
    make_tenant(state, &tenant).await;
    let lease = hermes_hub::storage::state::GrantedLease {
        tenant: tenant.clone(),
        epoch: state.held_epoch(&tenant).unwrap(),
    };
    state.release_leases(&[lease]).await.unwrap();
    state.forget_leases(std::slice::from_ref(&tenant));
    tenant
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_nobody_needs_is_released_for_other_nodes() {
    let cluster = Cluster::new().await;
    let state = open_state(&cluster.url, "n1").await;
    let tenant = tenant_without_lease(&*state).await;
    let options = LeaseOptions {
        lasting: Duration::from_mins(10),
        capacity: 10,
        idle_release: Duration::ZERO,
    };
    let leases = |state: &Arc<dyn State>, node: &str| {
        Leases::new(
            Arc::clone(state),
            Arc::new(SharedHomes),
            node.into(),
            options,
        )
    };
    let one = leases(&state, "n1");
    assert_eq!(one.hold(&tenant).await.unwrap(), LeaseOwner::Mine);
    let is_idle = eventually(TIMEOUT, || one.idle() == [tenant.clone()]);
    assert!(is_idle.await);
    // While a request works on the home, it is not handed over.
    let request = one.use_home(&tenant).unwrap();
    let leaving = one.start_handover(&tenant, TIMEOUT);
    tokio::pin!(leaving);
    let early = tokio::time::timeout(Duration::from_millis(50), &mut leaving).await;
    assert!(early.is_err(), "it was not waited for");
    assert!(one.use_home(&tenant).is_none());
    drop(request);
    let leaving = leaving.await.unwrap();
    one.release(&tenant, LeaseEnd::HandedOver).await;
    drop(leaving);
    assert!(state.lease_holder(&tenant).await.unwrap().is_none());

    let second = open_state(&cluster.url, "n2").await;
    let other = leases(&second, "n2");
    assert_eq!(other.hold(&tenant).await.unwrap(), LeaseOwner::Mine);
    assert_ne!(one.hold(&tenant).await.unwrap(), LeaseOwner::Mine);
}

/// Homes whose restoring takes until it is let go on.
struct SlowHomes(Semaphore);

#[async_trait]
impl HomeCheckpoints for SlowHomes {
    async fn restore(&self, _: &TenantId) -> Result<(), Problem> {
        self.0.acquire().await.unwrap().forget();
        Ok(())
    }

    async fn save(&self, _: &TenantId) -> Result<(), Problem> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_was_restored_too_late_is_restored_again() {
    let cluster = Cluster::new().await;
    let state = open_state(&cluster.url, "n1").await;
    let tenant = tenant_without_lease(&*state).await;
    let homes = Arc::new(SlowHomes(Semaphore::new(0)));
    let options = LeaseOptions {
        lasting: Duration::from_secs(1),
        capacity: 10,
        idle_release: Duration::from_mins(1),
    };
    let leases = Leases::new(
        Arc::clone(&state),
        Arc::clone(&homes) as Arc<dyn HomeCheckpoints>,
        "n1".into(),
        options,
    );
    let mut taking = JoinSet::new();
    taking.spawn({
        let (leases, tenant) = (Arc::clone(&leases), tenant.clone());
        async move { leases.hold(&tenant).await }
    });
    // The lease ends while the home is restored.
    let is_lost = eventually(TIMEOUT, || {
        leases.expire();
        leases.take_news().lost == [tenant.clone()]
    });
    assert!(is_lost.await, "the lease does not end");
    homes.0.add_permits(1);
    let taken = taking.join_next().await.unwrap().unwrap();
    assert_ne!(taken.unwrap(), LeaseOwner::Mine);
    assert!(leases.take_news().gained.is_empty());
    leases.finish_stop(&tenant).await;
    // The next one is not worked under before its own restore.
    let mut taking = JoinSet::new();
    taking.spawn({
        let (leases, tenant) = (Arc::clone(&leases), tenant.clone());
        async move { leases.hold(&tenant).await }
    });
    let is_claimed = eventually(TIMEOUT, || state.held_epoch(&tenant).is_some());
    assert!(is_claimed.await);
    assert!(!leases.is_mine(&tenant), "an old home is worked on");
    homes.0.add_permits(1);
    taking.join_next().await.unwrap().unwrap().unwrap();
}
