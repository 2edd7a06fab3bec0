//! Nodes that are cut off, and what becomes of their tenants.

use std::time::{Duration, Instant};

use hermes_testkit::{ChaosProxy, NetworkFault, Upstream, eventually_some};
use serde_json::json;

use super::cluster::{Cluster, TIMEOUT};

const LEASE_SECONDS: u64 = 6;

const FAILOVER: Duration = Duration::from_secs(LEASE_SECONDS + 5);

#[tokio::test(flavor = "multi_thread")]
async fn the_tenants_of_a_node_that_is_gone_go_on_elsewhere() {
    let mut cluster = Cluster::new().await;
    cluster.lease_seconds = LEASE_SECONDS;
    let (one, other) = cluster.holder_and_other("acme").await;
    // One that has not called a tool, and one that has.
    let early = one.run("acme", "say=1 wait").await;
    let late = one.run("acme", "tool wait say=1").await;
    one.run_has_events("acme", &early, 2).await;
    one.run_has_events("acme", &late, 3).await;
    one.state.close().await;
    let taken = eventually_some(TIMEOUT, async || {
        (other.holder("acme").await.as_deref() == Some("n2")).then_some(())
    });
    taken.await.expect("nobody takes the lease");
    other.agents.release("say=1 wait");
    other.run_becomes("acme", &early, "completed").await;
    let failed = other.run_becomes("acme", &late, "failed").await;
    assert_eq!(failed["error"]["code"], "interrupted", "{failed}");
    assert_eq!(other.agents.all_begun(), 1);
    // The node that was cut off has stopped its agents by itself.
    let tenant = hermes_hub::TenantId::parse("acme").unwrap();
    let stopped = eventually_some(TIMEOUT, async || {
        use hermes_hub::tenants::runtime::{ProcessStatus, Runtime as _};
        (one.agents.status(&tenant).await == ProcessStatus::Stopped).then_some(())
    });
    stopped.await.expect("an agent runs without a lease");
}

/// How long until a home is changed whose node is gone.
async fn fail_over() -> Duration {
    let mut cluster = Cluster::new().await;
    cluster.lease_seconds = LEASE_SECONDS;
    let (one, other) = cluster.holder_and_other("acme").await;
    let gone = Instant::now();
    one.state.close().await;
    let file = json!({"path": "a.txt", "content": "x"});
    let changed = eventually_some(TIMEOUT, async || {
        let path = "/v1/tenants/acme/files/content";
        let written = other.site.put(path, &file).await;
        (200..300).contains(&written.status).then_some(())
    });
    changed.await.expect("nobody works for the tenant");
    gone.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_takes_a_lease_and_five_seconds_at_most() {
    let mut took = Vec::new();
    // A machine under load may be slow a few times, not every time.
    while took.last().is_none_or(|last| *last > FAILOVER) {
        assert!(took.len() < 4, "fail-over took {took:?}");
        took.push(fail_over().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_node_that_has_just_gone_is_done_by_the_next_holder() {
    let mut cluster = Cluster::new().await;
    cluster.lease_seconds = LEASE_SECONDS;
    let (one, other) = cluster.holder_and_other("acme").await;
    assert_eq!(other.holder("acme").await.as_deref(), Some("n1"));
    one.state.close().await;
    let files = other.site.get("/v1/tenants/acme/files").await;
    assert_eq!(files.status, 200, "{}", files.text);
    assert_eq!(other.holder("acme").await.as_deref(), Some("n2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_cut_off_stops_by_itself_and_comes_back_without_its_tenants() {
    let mut cluster = Cluster::new().await;
    cluster.lease_seconds = LEASE_SECONDS;
    let server = format!("127.0.0.1:{}", cluster.database.cluster().port());
    let proxy = ChaosProxy::start(Upstream::Tcp(server.parse().unwrap()));
    let through_proxy = format!(
        "postgres://hermes@{}/{}",
        proxy.address(),
        cluster.database.name()
    );
    let one = cluster.node_at("n1", &through_proxy).await;
    one.site
        .tenant(json!({"id": "acme", "displayName": "Acme"}))
        .await;
    let run = one.run("acme", "say=1 wait").await;
    one.run_has_events("acme", &run, 2).await;
    // Only now: it would take the tenant as well.
    let other = cluster.node("n2").await;
    proxy.set(NetworkFault::BlackHole);
    let taken = eventually_some(TIMEOUT, async || {
        (other.holder("acme").await.as_deref() == Some("n2")).then_some(())
    });
    taken.await.expect("nobody takes the lease");
    let tenant = hermes_hub::TenantId::parse("acme").unwrap();
    let stopped = eventually_some(TIMEOUT, async || {
        use hermes_hub::tenants::runtime::{ProcessStatus, Runtime as _};
        (one.agents.status(&tenant).await == ProcessStatus::Stopped).then_some(())
    });
    stopped.await.expect("an agent runs without a lease");
    other.agents.release("say=1 wait");
    let ended = other.run_becomes("acme", &run, "completed").await;
    assert_eq!(ended["attempt"], 2);
    let names = other.watch("acme", &run).await;

    proxy.set(NetworkFault::None);
    let back = eventually_some(TIMEOUT, async || {
        let nodes = one.site.get("/v1/nodes").await;
        (nodes.status == 200 && nodes.json()["nodes"][0]["state"] == "active").then_some(())
    });
    back.await.expect("the node does not come back");
    assert_eq!(names, one.watch("acme", &run).await);
    let ends = names.iter().filter(|name| *name == "run.completed");
    assert_eq!(ends.count(), 1, "{names:?}");
    assert_eq!(one.holder("acme").await.as_deref(), Some("n2"));
    // A request that it gets is done by the other one.
    let run = one.run("acme", "say=1").await;
    one.run_becomes("acme", &run, "completed").await;
    assert_eq!(one.agents.all_begun(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_time_fires_once_over_all_nodes() {
    let cluster = Cluster::new().await;
    let nodes = [
        cluster.node("n1").await,
        cluster.node("n2").await,
        cluster.node("n3").await,
    ];
    for number in 0..4 {
        let node = &nodes[number % nodes.len()];
        let id = format!("t{number}");
        node.site.tenant(json!({"id": id, "displayName": id})).await;
        let job = json!({"id": "soon", "schedule": in_two_seconds(), "prompt": "Say hello"});
        let path = format!("/v1/tenants/{id}/agent-cron");
        nodes[(number + 1) % nodes.len()]
            .site
            .post(&path, &job)
            .await
            .expect(201);
    }
    for number in 0..4 {
        let path = format!("/v1/tenants/t{number}/runs?trigger=cron");
        let fired = eventually_some(TIMEOUT, async || {
            let runs = nodes[0].site.get(&path).await.expect(200);
            let runs = runs["runs"].as_array().unwrap().clone();
            let is_over = runs.iter().any(|run| run["status"] == "completed");
            is_over.then_some(runs)
        });
        let runs = fired.await.expect("the job does not run");
        assert_eq!(runs.len(), 1, "{runs:?}");
    }
    let begun: usize = nodes.iter().map(|node| node.agents.all_begun()).sum();
    assert_eq!(begun, 4);
}

fn in_two_seconds() -> String {
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2);
    soon.to_string()
}
