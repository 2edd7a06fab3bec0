//! Bots that are set up while no node is sure to see it: their agents are started nevertheless.

use std::time::Duration;

use hermes_hub::TenantId;
use hermes_testkit::{eventually, eventually_some};
use serde_json::{Value, json};

use super::cluster::{Cluster, Node, TIMEOUT};

/// Until a node has found no bot.
const SHORT: Duration = Duration::from_millis(500);

const ACME: &str = "/v1/tenants/acme";

fn bot() -> Value {
    json!({"TELEGRAM_BOT_TOKEN": "123:abc"})
}

async fn wait_for_bot(node: &Node) {
    let tenant = TenantId::parse("acme").unwrap();
    let is_started = eventually(TIMEOUT, || node.agents.starts(&tenant) > 0);
    assert!(is_started.await, "nobody starts the bot");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_that_is_set_up_before_its_node_looks_for_changes_is_started() {
    let cluster = Cluster::new().await;
    let one = cluster.node("n1").await;
    one.site.tenant(json!({"id": "acme", "start": false})).await;
    let drained = one.site.post("/v1/nodes/n1/drain", &json!({})).await;
    drained.expect(202);
    let is_free = eventually_some(TIMEOUT, async || {
        one.holder("acme").await.is_none().then_some(())
    });
    is_free.await.expect("the tenant stays");
    let other = cluster.node("n2").await;
    let files = other.site.get(&format!("{ACME}/files")).await;
    files.expect(200);
    assert_eq!(one.holder("acme").await.as_deref(), Some("n2"));
    // It looks for changes every two seconds, and when it is told of one.
    let tenant = TenantId::parse("acme").unwrap();
    let is_early = eventually(SHORT, || other.agents.starts(&tenant) > 0);
    assert!(!is_early.await, "there is no bot yet");
    one.site
        .patch(ACME, &json!({"env": bot()}))
        .await
        .expect(200);
    wait_for_bot(&other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_that_is_set_up_while_its_node_is_gone_is_started_by_another() {
    let mut cluster = Cluster::new().await;
    cluster.lease_seconds = 6;
    let (one, other) = cluster.holder_and_other("acme").await;
    one.state.close().await;
    other
        .site
        .patch(ACME, &json!({"env": bot()}))
        .await
        .expect(200);
    wait_for_bot(&other).await;
    assert_eq!(other.holder("acme").await.as_deref(), Some("n2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_of_a_new_tenant_is_started_as_soon_as_there_is_a_home() {
    let cluster = Cluster::new().await;
    let node = cluster.node("n1").await;
    let tenant = json!({"id": "acme", "start": false, "env": bot()});
    node.site.tenant(tenant).await;
    wait_for_bot(&node).await;
    // So that another node starts it when this one is gone.
    let known = "SELECT count(*) FROM leases WHERE tenant = 'acme' AND always_on";
    assert_eq!(cluster.database.run_sql(known).trim(), "1");
}
