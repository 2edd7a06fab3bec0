//! The server's machine vanishes: no connection is closed, and nothing is answered.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use hermes_hub::storage::state::State;
use hermes_testkit::{
    ChaosProxy, NetworkFault, Upstream, eventually, eventually_some, postgres::TestDatabase,
};

use super::{entry, open_postgres_with, tenant_id};

const TIMEOUT: Duration = Duration::from_secs(1);
/// The wait for the server that is gone, and for the one that is there instead, on a machine under load.
const SOON: Duration = Duration::from_secs(20);

/// A state behind a proxy, with connections that have been used.
async fn behind_proxy(timeout: Duration) -> (TestDatabase, ChaosProxy, Arc<dyn State>) {
    let database = TestDatabase::create();
    let port = database.cluster().port();
    let proxy = ChaosProxy::start(Upstream::Tcp(([127, 0, 0, 1], port).into()));
    let url = format!("postgres://hermes@{}/{}", proxy.address(), database.name());
    let state = open_postgres_with(url, "n1", 8, timeout).await;
    state.append_audit(vec![entry("before")]).await.unwrap();
    state.catch_up().await.unwrap();
    let id = tenant_id("a");
    for read in join_all((0..6).map(|_| state.tenant(&id))).await {
        read.unwrap();
    }
    (database, proxy, state)
}

/// Waits until the server has got more than so many requests.
async fn wait_for_request(proxy: &ChaosProxy, before: usize) {
    let is_passed = eventually(SOON, || proxy.passed_requests() > before);
    assert!(is_passed.await, "nothing is sent");
}

#[tokio::test]
async fn nobody_notices_more_of_it_than_one_wait() {
    let (_database, proxy, state) = behind_proxy(TIMEOUT).await;
    proxy.swallow_connections();
    let began = Instant::now();
    let id = tenant_id("a");
    let (read, write, changes) = tokio::join!(
        state.tenant(&id),
        state.append_audit(vec![entry("meanwhile")]),
        state.catch_up()
    );
    read.unwrap();
    write.unwrap();
    changes.unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // All the other connections are given up by now, and nobody waits for them.
    let began = Instant::now();
    for read in join_all((0..6).map(|_| state.tenant(&id))).await {
        read.unwrap();
    }
    state.append_audit(vec![entry("after")]).await.unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let checks = state.verify_audit().await.unwrap();
    assert!(
        checks.iter().all(|check| check.broken.is_none()),
        "{checks:?}"
    );
}

#[tokio::test]
async fn a_read_that_is_under_way_is_sent_again_over_another_connection() {
    let (_database, proxy, state) = behind_proxy(TIMEOUT).await;
    let before = proxy.passed_requests();
    proxy.set(NetworkFault::HalfOpen);
    let id = tenant_id("a");
    let read = async { state.tenant(&id).await };
    let vanish = async {
        // Then the server has got it, and its reply is on the way.
        wait_for_request(&proxy, before).await;
        proxy.swallow_connections();
        proxy.set(NetworkFault::None);
    };
    let (read, ()) = tokio::join!(read, vanish);
    read.unwrap();
}

#[tokio::test]
async fn a_change_that_may_have_been_made_is_not_made_twice() {
    let (database, proxy, state) = behind_proxy(TIMEOUT).await;
    let count = || database.run_sql("SELECT COUNT(*) FROM audit WHERE action = 'once'");
    let mut seen = 0;
    for _ in 0..5 {
        let before = proxy.passed_requests();
        proxy.set(NetworkFault::HalfOpen);
        let changed = async { state.append_audit(vec![entry("once")]).await };
        let vanish = async {
            wait_for_request(&proxy, before).await;
            proxy.swallow_connections();
            proxy.set(NetworkFault::None);
        };
        let (changed, ()) = tokio::join!(changed, vanish);
        seen += u64::from(changed.is_ok());
        state.append_audit(vec![entry("next")]).await.unwrap();
    }
    let made: u64 = count().trim().parse().unwrap();
    assert!(made >= seen && made <= 5, "{made} made, {seen} told");
}

#[tokio::test]
async fn a_connection_that_was_long_idle_is_tried_before_it_is_used() {
    let timeout = Duration::from_millis(400);
    // Two timeouts, after which connections are asked.
    let long_idle = timeout * 2 + Duration::from_millis(100);
    let (_database, proxy, state) = behind_proxy(timeout).await;
    tokio::time::sleep(long_idle).await;
    let before = proxy.connections();
    let id = tenant_id("a");
    state.tenant(&id).await.unwrap();
    assert_eq!(proxy.connections(), before, "one that works is used");
    tokio::time::sleep(long_idle).await;
    proxy.swallow_connections();
    state.tenant(&id).await.unwrap();
    assert!(proxy.connections() > before);
}

#[tokio::test]
async fn a_listener_finds_out_that_nothing_can_come_any_more() {
    let (database, proxy, state) = behind_proxy(TIMEOUT).await;
    let other = open_postgres_with(database.url(), "n2", 4, TIMEOUT).await;
    let mut notices = state.listen().unwrap();
    // It listens once it has told that it knows nothing.
    let first = tokio::time::timeout(SOON, notices.recv()).await;
    first.expect("it does not listen").unwrap();
    proxy.swallow_connections();
    let again = tokio::time::timeout(SOON * 2, notices.recv()).await;
    again.expect("it listens to nobody").unwrap();
    other.listen().unwrap();
    let heard = eventually_some(SOON, async || {
        other.notify(hermes_hub::storage::state::Notice::Work);
        let next = tokio::time::timeout(Duration::from_millis(500), notices.recv()).await;
        next.ok()
    });
    heard.await.expect("it hears nothing").unwrap();
}
