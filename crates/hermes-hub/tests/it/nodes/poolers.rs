//! Nodes whose statements go through pgbouncer in transaction mode. Notices come over a connection of their own to the
//! server; without one, nodes find everything by looking.

use hermes_hub::storage::state::Notice;
use hermes_testkit::{
    eventually_some,
    postgres::{Pgbouncer, TestDatabase},
};
use serde_json::{Value, json};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::cluster::{Cluster, Node, TIMEOUT};

const ACME: &str = "/v1/tenants/acme";
const JOBS: &str = "/v1/tenants/acme/agent-cron";

/// Connections to the server for all nodes together: fewer than one node opens.
const LENT: u32 = 4;

/// A cluster with two nodes behind a pooler. The first one works for a tenant.
async fn nodes_behind_pooler(listens_directly: bool) -> (Cluster, Pgbouncer, Node, Node) {
    let cluster = Cluster::new().await;
    let pooler = Pgbouncer::start(&cluster.database, LENT);
    let listen_url = listens_directly.then(|| cluster.database.url());
    let one = cluster.node_behind("n1", &pooler, listen_url.clone()).await;
    one.site
        .tenant(json!({"id": "acme", "displayName": "Acme"}))
        .await;
    let other = cluster.node_behind("n2", &pooler, listen_url).await;
    assert_eq!(other.holder("acme").await.as_deref(), Some("n1"));
    (cluster, pooler, one, other)
}

/// How many sessions listen that came over the socket of the server, and so not through the pooler.
fn direct_listeners(database: &TestDatabase) -> String {
    database.run_sql(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND client_addr IS NULL AND query ILIKE 'listen%'",
    )
}

/// What was written at one node is read at the other one at once.
async fn expect_current_reads(one: &Node, other: &Node) {
    for round in 0..10 {
        let (writer, reader) = if round % 2 == 0 {
            (one, other)
        } else {
            (other, one)
        };
        let name = format!("Name {round}");
        let change = json!({"displayName": name});
        writer.site.patch(ACME, &change).await.expect(200);
        let read = reader.site.get(ACME).await.expect(200);
        assert_eq!(read["displayName"], name);
    }
}

/// A run of one node is decided and watched at the other, which also changes the tenant's home: by commands.
async fn expect_shared_work(one: &Node, other: &Node) {
    let run = other.run("acme", "say=3 ask=ls say=2").await;
    other
        .run_becomes("acme", &run, "waiting_for_approval")
        .await;
    let watching = other.watch("acme", &run);
    let deciding = async {
        let path = format!("{ACME}/runs/{run}/approval");
        let decision = json!({"choice": "once"});
        other.site.post(&path, &decision).await.expect(200);
    };
    let (names, ()) = tokio::join!(watching, deciding);
    assert_eq!(names.first().map(String::as_str), Some("run.started"));
    assert_eq!(names.last().map(String::as_str), Some("run.completed"));
    assert_eq!(names, one.watch("acme", &run).await);
    assert_eq!((one.agents.all_begun(), other.agents.all_begun()), (1, 0));
    let job = json!({"id": "daily", "schedule": "0 9 * * *", "prompt": "Plan"});
    other.site.post(JOBS, &job).await.expect(201);
}

/// The lease goes to the other node, with the home as it was saved last.
async fn expect_handover(one: &Node, other: &Node) {
    one.site
        .post("/v1/nodes/n1/drain", &json!({}))
        .await
        .expect(202);
    let handed_over = eventually_some(TIMEOUT, async || {
        let nodes = other.site.get("/v1/nodes").await.expect(200);
        (nodes["nodes"][0]["tenants"] == 0).then_some(())
    });
    handed_over.await.expect("the node keeps its tenant");
    let run = one.run("acme", "say=1").await;
    other.run_becomes("acme", &run, "completed").await;
    assert_eq!(one.holder("acme").await.as_deref(), Some("n2"));
    assert_eq!(other.agents.all_begun(), 1);
    for node in [one, other] {
        let jobs = node.site.get(JOBS).await.expect(200);
        assert_eq!(jobs["jobs"][0]["id"], "daily", "{jobs}");
    }
}

/// Waits until a node hears that a tenant was changed.
async fn hear_of_tenant(notices: &mut Receiver<Notice>) {
    loop {
        match notices.recv().await {
            Ok(Notice::Tenant(tenant)) if tenant.as_str() == "acme" => return,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => panic!("nobody listens"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_behind_a_pooler_hear_of_each_other_over_the_address_to_listen_at() {
    let (cluster, _pooler, one, other) = nodes_behind_pooler(true).await;
    let listening = eventually_some(TIMEOUT, async || {
        (direct_listeners(&cluster.database) == "2").then_some(())
    });
    listening
        .await
        .expect("the nodes do not listen at the server itself");
    let mut notices = other.state.listen().unwrap();
    let change = json!({"displayName": "Noticed"});
    one.site.patch(ACME, &change).await.expect(200);
    let heard = tokio::time::timeout(TIMEOUT, hear_of_tenant(&mut notices)).await;
    heard.expect("no notice comes");
    expect_current_reads(&one, &other).await;
    expect_shared_work(&one, &other).await;
    expect_handover(&one, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_behind_a_pooler_work_together_also_where_no_notice_comes_through() {
    let (cluster, _pooler, one, other) = nodes_behind_pooler(false).await;
    expect_current_reads(&one, &other).await;
    expect_shared_work(&one, &other).await;
    expect_handover(&one, &other).await;
    assert_eq!(direct_listeners(&cluster.database), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_when_the_pooler_restarts() {
    let (_cluster, mut pooler, one, other) = nodes_behind_pooler(true).await;
    let run = one.run("acme", "say=2 wait say=2").await;
    one.run_has_events("acme", &run, 2).await;
    pooler.restart();
    one.agents.release("say=2 wait say=2");
    let path = format!("{ACME}/runs/{run}");
    for node in [&other, &one] {
        let mut last = Value::Null;
        let ended = eventually_some(TIMEOUT, async || {
            let read = node.site.get(&path).await;
            last = if read.status == 200 {
                read.json()
            } else {
                assert_eq!(read.status, 503, "{}", read.text);
                Value::Null
            };
            (last["status"] == "completed").then_some(())
        });
        ended
            .await
            .unwrap_or_else(|| panic!("the run does not end: {last}"));
    }
    let names = other.watch("acme", &run).await;
    let begins = names.iter().filter(|name| *name == "run.started").count();
    assert_eq!(begins, 1, "{names:?}");
    assert_eq!(names.last().map(String::as_str), Some("run.completed"));
    assert_eq!((one.agents.all_begun(), other.agents.all_begun()), (1, 0));
    assert_eq!(other.holder("acme").await.as_deref(), Some("n1"));
}
