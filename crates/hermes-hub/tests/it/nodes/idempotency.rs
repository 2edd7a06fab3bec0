//! Requests with an `Idempotency-Key` whose node died, or stood still and comes back.

use std::sync::Arc;

use hermes_hub::{
    TenantId,
    api_types::Time,
    storage::{
        audit::NewAuditEntry,
        state::{
            IdempotencyKey, KeyClaim, NodeReport, State, StateError, StoredReply, TenantChange,
        },
    },
};

use super::cluster::{Cluster, open_state};
use crate::agent_harness::make_tenant;

const BODY: [u8; 32] = [1; 32];

fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey {
        token: "tok_7".into(),
        route: "update_tenant/acme".into(),
        key: name.into(),
    }
}

/// Two nodes that work, and a tenant.
async fn two_nodes(cluster: &Cluster) -> [Arc<dyn State>; 2] {
    let nodes = [
        open_state(&cluster.url, "n1").await,
        open_state(&cluster.url, "n2").await,
    ];
    for node in &nodes {
        report(&**node).await;
    }
    make_tenant(&*nodes[0], &acme()).await;
    nodes
}

async fn report(node: &dyn State) {
    let report = NodeReport {
        version: "1".into(),
        started_at: Time::now(),
        capacity: 10,
    };
    node.report_node(&report).await.unwrap();
}

fn acme() -> TenantId {
    TenantId::parse("acme").unwrap()
}

/// A change of the tenant for a request.
async fn change(node: &dyn State, name: &str) -> Result<(), StateError> {
    let change = TenantChange {
        display_name: Some(name.to_owned()),
        ..TenantChange::default()
    };
    let mut entry = NewAuditEntry::by_hub("update_tenant");
    entry.idempotency = Some(key(name));
    let changed = node.update_tenant(&acme(), change, None, entry).await;
    changed.map(drop)
}

/// `n1` was last seen a while ago, and its requests are as old.
fn silence_first_node(cluster: &Cluster) {
    cluster.database.run_sql(
        "UPDATE nodes SET seen_at = seen_at - INTERVAL '5 minutes' WHERE id = 'n1';
         UPDATE idempotency SET created_at = created_at - 300000",
    );
}

async fn claim(node: &dyn State, name: &str) -> KeyClaim {
    node.claim_key(&key(name), &BODY).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_a_node_that_is_gone_is_done_by_the_next_one_unless_it_had_begun() {
    let cluster = Cluster::new().await;
    let [gone, node] = two_nodes(&cluster).await;
    for name in ["waiting", "changed"] {
        assert_eq!(claim(&*gone, name).await, KeyClaim::First);
        assert_eq!(claim(&*node, name).await, KeyClaim::Running);
    }
    change(&*gone, "changed").await.unwrap();
    silence_first_node(&cluster);
    let other_body = node.claim_key(&key("waiting"), &[2; 32]).await.unwrap();
    assert_eq!(other_body, KeyClaim::BodyMismatch);
    assert_eq!(claim(&*node, "waiting").await, KeyClaim::First);
    assert_eq!(claim(&*node, "changed").await, KeyClaim::ReplyLost);
    change(&*node, "waiting").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_does_not_do_what_another_one_does_by_now() {
    let cluster = Cluster::new().await;
    let [paused, node] = two_nodes(&cluster).await;
    assert_eq!(claim(&*paused, "waiting").await, KeyClaim::First);
    silence_first_node(&cluster);
    assert_eq!(claim(&*node, "waiting").await, KeyClaim::First);
    // It goes on where it stood still.
    let refused = change(&*paused, "waiting").await;
    assert!(
        matches!(&refused, Err(StateError::Conflict { reason, .. }) if *reason == "request_taken_over"),
        "{refused:?}"
    );
    paused.release_key(&key("waiting")).await.unwrap();
    report(&*paused).await;
    assert_eq!(claim(&*paused, "waiting").await, KeyClaim::Running);
    change(&*node, "waiting").await.unwrap();
    let reply = StoredReply {
        status: 200,
        body: b"{}".to_vec(),
    };
    node.finish_key(&key("waiting"), reply.clone())
        .await
        .unwrap();
    assert_eq!(claim(&*paused, "waiting").await, KeyClaim::Replay(reply));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_takes_long_is_left_to_a_node_that_works() {
    let cluster = Cluster::new().await;
    let [busy, node] = two_nodes(&cluster).await;
    assert_eq!(claim(&*busy, "long").await, KeyClaim::First);
    silence_first_node(&cluster);
    report(&*busy).await;
    assert_eq!(claim(&*node, "long").await, KeyClaim::Running);
    change(&*busy, "long").await.unwrap();
}
