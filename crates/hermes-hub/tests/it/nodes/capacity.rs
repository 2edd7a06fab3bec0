//! How many tenants a node takes by itself.

use hermes_testkit::eventually_some;
use serde_json::json;

use super::cluster::{Cluster, TIMEOUT};

const TENANTS: [&str; 3] = ["acme", "brown", "cole"];

#[tokio::test(flavor = "multi_thread")]
async fn a_node_takes_no_more_tenants_than_it_has_room_for() {
    let cluster = Cluster::new().await;
    let first = cluster.node("n0").await;
    for tenant in TENANTS {
        let tenant = json!({"id": tenant, "start": false});
        first.site.tenant(tenant).await;
    }
    let holders = async |count: usize| {
        let held = eventually_some(TIMEOUT, async || {
            let sql = "SELECT count(DISTINCT node) FROM leases WHERE node IS NOT NULL";
            (cluster.database.run_sql(sql).trim() == count.to_string()).then_some(())
        });
        held.await.expect("tenants have other nodes");
    };
    first
        .site
        .post("/v1/nodes/n0/drain", &json!({}))
        .await
        .expect(202);
    holders(0).await;
    for tenant in TENANTS {
        first.run(tenant, "wait").await;
    }
    // Each takes one. If the first took more, there would be none for the last.
    let mut nodes = Vec::new();
    for count in 1..=TENANTS.len() {
        nodes.push(cluster.node_with_room(&format!("n{count}"), 1).await);
        holders(count).await;
    }
}
