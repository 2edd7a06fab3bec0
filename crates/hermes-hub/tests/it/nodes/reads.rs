//! What one node has answered is what every other node reads next: nothing here waits for a notice.

use std::net::SocketAddr;

use hermes_testkit::{ChaosProxy, NetworkFault, eventually_some};
use reqwest::Method;
use serde_json::{Value, json};

use super::cluster::{Cluster, Node, TIMEOUT};

const ACME: &str = "/v1/tenants/acme";

async fn with_acme(node: &Node) {
    node.site
        .tenant(json!({"id": "acme", "displayName": "Acme", "start": false}))
        .await;
}

async fn name_at(node: &Node) -> Value {
    node.site.get(ACME).await.expect(200)["displayName"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_at_one_node_is_seen_by_the_next_read_at_any_other() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    with_acme(&one).await;
    other.site.get(ACME).await.expect(200);
    for round in 0..30 {
        let (writer, reader) = if round % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        let name = format!("Name {round}");
        let written = writer.site.patch(ACME, &json!({"displayName": name})).await;
        let etag = written.header("etag").to_owned();
        let read = reader.site.get(ACME).await;
        assert_eq!(read.header("etag"), etag);
        assert_eq!(read.expect(200)["displayName"], name);
        assert_eq!(name_at(writer).await, name);
        // What the reader knows is good for a change with a condition.
        let change = reader
            .site
            .request(&reader.site.admin, Method::PATCH, ACME)
            .header("if-match", &etag)
            .json(&json!({"labels": {"round": round.to_string()}}));
        let labelled = reader.site.send(change).await;
        assert_eq!(labelled.status, 200, "{}", labelled.text);
        let stale = writer
            .site
            .request(&writer.site.admin, Method::PATCH, ACME)
            .header("if-match", &etag)
            .json(&json!({"displayName": "late"}));
        assert_eq!(writer.site.send(stale).await.status, 412);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_disk_space_and_the_end_of_a_tenant_are_seen_at_once() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    with_acme(&one).await;
    let group = json!({"id": "sales", "displayName": "Sales", "kind": "team"});
    one.site.post("/v1/groups", &group).await.expect(201);
    assert_eq!(other.site.get(ACME).await.expect(200)["groups"], json!([]));
    let member = json!({"access": "write"});
    one.site
        .put("/v1/groups/sales/members/acme", &member)
        .await
        .expect(200);
    let groups = other.site.get(ACME).await.expect(200)["groups"].clone();
    assert_eq!(groups[0]["id"], "sales");
    // By hand, or by a program of another version.
    cluster.database.run_sql(
        "INSERT INTO usage (kind, owner, bytes, files) VALUES ('tenant', 'acme', 4711, 3)
         ON CONFLICT (kind, owner) DO UPDATE SET bytes = 4711",
    );
    let storage = other.site.get(ACME).await.expect(200)["storage"].clone();
    assert_eq!(storage["usedBytes"], 4711, "{storage}");
    other.site.delete(ACME).await.expect(204);
    assert_eq!(one.site.get(ACME).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_changes_many_tenants_is_seen_for_each_of_them() {
    let cluster = Cluster::new().await;
    let node = cluster.node("n1").await;
    let group = json!({"id": "sales", "displayName": "Sales", "kind": "team"});
    node.site.post("/v1/groups", &group).await.expect(201);
    for id in ["acme", "brown"] {
        let tenant =
            json!({"id": id, "start": false, "groups": [{"id": "sales", "access": "read"}]});
        node.site.tenant(tenant).await;
    }
    let read = async |id: &str| {
        let tenant = node.site.get(&format!("/v1/tenants/{id}")).await;
        let tenant = tenant.expect(200);
        (tenant["displayName"].clone(), tenant["groups"].clone())
    };
    for id in ["acme", "brown"] {
        assert_ne!(read(id).await.1, json!([]));
    }
    let rename = "UPDATE tenants SET display_name = 'By hand: ' || id";
    cluster.database.run_sql(rename);
    for id in ["acme", "brown"] {
        assert_eq!(read(id).await.0, format!("By hand: {id}"));
    }
    // Its members go with it.
    cluster.database.run_sql("DELETE FROM share_groups");
    for id in ["acme", "brown"] {
        assert_eq!(read(id).await.1, json!([]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_kept_for_questions_is_replaced_when_the_server_closes_it() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    with_acme(&one).await;
    for round in 0..3 {
        assert_eq!(other.site.get(ACME).await.status, 200);
        let closed = cluster.database.run_sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = current_database() AND query LIKE 'SELECT pg_current_snapshot()%'",
        );
        assert_ne!(closed, "0");
        let name = format!("Name {round}");
        let change = json!({"displayName": name});
        one.site.patch(ACME, &change).await.expect(200);
        assert_eq!(name_at(&other).await, name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_revoked_at_one_node_is_refused_by_the_next_request_at_any_other() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    with_acme(&one).await;
    for _ in 0..5 {
        let request = json!({"name": "ci", "scopes": ["tenants:read"]});
        let minted = one.site.post("/v1/tokens", &request).await.expect(201);
        let token = minted["token"].as_str().unwrap();
        let read = async |node: &Node| {
            let request = node.site.request(token, Method::GET, ACME);
            node.site.send(request).await.status
        };
        assert_eq!((read(&one).await, read(&other).await), (200, 200));
        let path = format!("/v1/tokens/{}", minted["id"].as_str().unwrap());
        other.site.delete(&path).await.expect(204);
        assert_eq!((read(&one).await, read(&other).await), (401, 401));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_was_blocked_at_one_node_is_blocked_at_any_other() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    with_acme(&one).await;
    other.site.get(ACME).await.expect(200);
    let access = format!("{ACME}/access");
    let start = async || {
        let input = json!({"input": "say=1"});
        let runs = format!("{ACME}/runs");
        other.site.post(&runs, &input).await
    };
    for _ in 0..3 {
        let blocked = json!({"status": "blocked"});
        one.site.put(&access, &blocked).await.expect(200);
        let refused = start().await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        let active = json!({"status": "active"});
        one.site.put(&access, &active).await.expect(200);
        start().await.expect(202);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_were_changed_at_one_node_hold_at_any_other() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    with_acme(&one).await;
    let question = json!({"tenantId": "acme", "tool": "terminal"});
    let explained = async |node: &Node| {
        let path = "/v1/agent-policy/explain";
        node.site.post(path, &question).await.expect(200)
    };
    for denied in [json!(["terminal"]), json!([]), json!(["terminal"])] {
        let before = explained(&other).await;
        let policy = json!({"tools": {"deny": denied}});
        one.site.put("/v1/agent-policy", &policy).await.expect(200);
        let after = explained(&other).await;
        assert_ne!(before, after);
        assert_eq!(after, explained(&one).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_current_while_nobody_hears_notices() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    with_acme(&one).await;
    other.site.get(ACME).await.expect(200);
    for round in 0..5 {
        cluster.cut_notices().await;
        let name = format!("Name {round}");
        let change = json!({"displayName": name});
        one.site.patch(ACME, &change).await.expect(200);
        assert_eq!(name_at(&other).await, name);
        // The listeners come back after a while; the next round needs one to cut.
        let listens = eventually_some(TIMEOUT, async || {
            let listeners = cluster.database.run_sql(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND query ILIKE 'listen%'",
            );
            (listeners != "0").then_some(())
        });
        listens.await.expect("nobody listens again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_database_refuses_reads_instead_of_answering_from_memory() {
    let cluster = Cluster::new().await;
    let one = cluster.node("n1").await;
    let server = ([127, 0, 0, 1], cluster.database.cluster().port());
    let proxy = ChaosProxy::start(SocketAddr::from(server));
    let url = format!(
        "postgres://hermes@{}/{}",
        proxy.address(),
        cluster.database.name()
    );
    let other = cluster.node_at("n2", &url).await;
    with_acme(&one).await;
    assert_eq!(name_at(&other).await, "Acme");
    proxy.set(NetworkFault::Cut);
    assert_eq!(other.site.get(ACME).await.status, 503);
    let change = json!({"displayName": "Meanwhile"});
    one.site.patch(ACME, &change).await.expect(200);
    assert_eq!(other.site.get(ACME).await.status, 503);
    proxy.set(NetworkFault::None);
    let back = eventually_some(TIMEOUT, async || {
        let read = other.site.get(ACME).await;
        (read.status == 200).then(|| read.json())
    });
    let read = back.await.expect("the node does not come back");
    assert_eq!(read["displayName"], "Meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_database_is_closed_answers_that_at_once() {
    let cluster = Cluster::new().await;
    let node = cluster.node("n1").await;
    with_acme(&node).await;
    assert_eq!(name_at(&node).await, "Acme");
    node.state.close().await;
    assert_eq!(node.site.get(ACME).await.status, 503);
}
