//! Nodes whose database is replaced by a replica that lags: what the new server has is true from then on, and nothing
//! of what a node remembers from the old one is.

use std::sync::Arc;

use hermes_testkit::{
    eventually_some,
    postgres::{PostgresCluster, PostgresReplica, TestDatabase},
};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::cluster::{Cluster, Node, TIMEOUT};
use crate::test_hub::HttpAnswer;

const ACME: &str = "/v1/tenants/acme";
const SCRIPT: &str = "say=2 wait say=2";

/// Nodes keep their leases although renewals are lost.
const LEASE_SECONDS: u64 = 120;

/// Changes that the replica does not get. As many are made afterwards, with the same numbers of transactions.
const LOST_CHANGES: usize = 10;

/// A cluster whose database has a replica, and follows whichever server is the primary one.
async fn with_replica() -> (Cluster, PostgresReplica) {
    let server = Arc::new(PostgresCluster::start(&[]));
    let database = TestDatabase::create_in(&server);
    let replica = PostgresReplica::start(&server);
    let url = replica.primary_url(database.name());
    let mut cluster = Cluster::over(database, url).await;
    cluster.lease_seconds = LEASE_SECONDS;
    (cluster, replica)
}

/// The first answer of a node that is not about its database.
async fn answer(node: &Node, request: impl Fn() -> RequestBuilder) -> HttpAnswer {
    let answered = eventually_some(TIMEOUT, async || {
        let answer = node.site.send(request()).await;
        (answer.status != 503).then_some(answer)
    });
    answered.await.expect("the node does not come back")
}

async fn read(node: &Node, token: &str, path: &str) -> HttpAnswer {
    answer(node, || node.site.request(token, Method::GET, path)).await
}

async fn display_name(node: &Node) -> Value {
    let read = read(node, &node.site.admin, ACME).await;
    read.expect(200)["displayName"].clone()
}

async fn rename(node: &Node, name: &str) {
    let change = json!({"displayName": name});
    let changed = answer(node, || {
        node.site
            .request(&node.site.admin, Method::PATCH, ACME)
            .json(&change)
    });
    changed.await.expect(200);
}

/// Whether the policy denies the tenant a terminal, as a node explains it.
async fn explanation(node: &Node) -> Value {
    let question = json!({"tenantId": "acme", "tool": "terminal"});
    let explained = answer(node, || {
        node.site
            .request(&node.site.admin, Method::POST, "/v1/agent-policy/explain")
            .json(&question)
    });
    explained.await.expect(200)
}

struct KnownToken {
    path: String,
    text: String,
}

async fn mint(node: &Node) -> KnownToken {
    let request = json!({"name": "ci", "scopes": ["tenants:read"]});
    let minted = node.site.post("/v1/tokens", &request).await.expect(201);
    KnownToken {
        path: format!("/v1/tokens/{}", minted["id"].as_str().unwrap()),
        text: minted["token"].as_str().unwrap().to_owned(),
    }
}

/// The numbers of a run's events, up to its end.
async fn event_ids(node: &Node, run: &str) -> Vec<u64> {
    let path = format!("{ACME}/runs/{run}/events");
    let events = tokio::time::timeout(TIMEOUT, read(node, &node.site.admin, &path));
    let events = events.await.expect("the run does not end");
    let ids = events
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("id: "));
    ids.map(|id| id.parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_forget_what_a_replica_that_takes_over_does_not_have() {
    let (cluster, replica) = with_replica().await;
    let (one, other) = cluster.holder_and_other("acme").await;
    let nodes = [&one, &other];
    let run = one.run("acme", SCRIPT).await;
    one.run_has_events("acme", &run, 2).await;
    let revoked = mint(&one).await;
    let allowed = explanation(&one).await;
    replica.wait_until_current();
    replica.cut_off();

    for number in 0..LOST_CHANGES {
        rename(&one, &format!("Lost {number}")).await;
    }
    one.site.delete(&revoked.path).await.expect(204);
    let minted = mint(&other).await;
    let policy = json!({"tools": {"deny": ["terminal"]}});
    one.site.put("/v1/agent-policy", &policy).await.expect(200);
    // Each node knows all of it.
    for node in nodes {
        assert_eq!(display_name(node).await, "Lost 9");
        assert_eq!(read(node, &revoked.text, ACME).await.status, 401);
        assert_eq!(read(node, &minted.text, ACME).await.status, 200);
        assert_ne!(explanation(node).await, allowed);
    }
    replica.take_over();

    for node in nodes {
        assert_eq!(display_name(node).await, "Acme");
        assert_eq!(read(node, &revoked.text, ACME).await.status, 200);
        assert_eq!(read(node, &minted.text, ACME).await.status, 401);
        assert_eq!(explanation(node).await, allowed);
        let ready = read(node, "", "/v1/readyz").await;
        assert_eq!(ready.status, 200, "{}", ready.text);
    }
    // Transactions have numbers again that the lost ones had.
    for number in 0..2 * LOST_CHANGES {
        let name = format!("New {number}");
        let (writer, reader) = if number % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        rename(writer, &name).await;
        assert_eq!(display_name(reader).await, name);
    }
    one.agents.release(SCRIPT);
    let ids = event_ids(&other, &run).await;
    let expected: Vec<u64> = (1..).take(ids.len()).collect();
    assert_eq!(ids, expected);
    other.run_becomes("acme", &run, "completed").await;
    assert_eq!(event_ids(&one, &run).await, ids);
    assert_eq!((one.agents.all_begun(), other.agents.all_begun()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_with_the_revision_of_a_lost_one_is_not_mixed_up_with_it() {
    let (cluster, replica) = with_replica().await;
    let (one, other) = cluster.holder_and_other("acme").await;
    replica.wait_until_current();
    replica.cut_off();
    let put = async |denied: &str| {
        let policy = json!({"tools": {"deny": [denied]}});
        let stored = answer(&one, || {
            one.site
                .request(&one.site.admin, Method::PUT, "/v1/agent-policy")
                .json(&policy)
        });
        stored.await.expect(200)["revision"].clone()
    };
    let lost = put("terminal").await;
    let refused = explanation(&one).await;
    assert_eq!(explanation(&other).await, refused);
    replica.take_over();
    // Before the nodes have read anything there.
    assert_eq!(put("browser").await, lost);
    let now = explanation(&one).await;
    assert_ne!(now, refused);
    assert_eq!(explanation(&other).await, now);
}
