//! The feed of events and webhooks, where any node may store an event and any may send it.

use std::collections::HashSet;

use hermes_testkit::{eventually, eventually_some};
use reqwest::Method;
use serde_json::{Value, json};

use super::cluster::{Cluster, Node, TIMEOUT};
use crate::{console::live::assert_changes_are_heard_in_time, webhook_target::WebhookTarget};

const TENANTS: usize = 20;

/// Makes tenants at both nodes at once.
async fn make_tenants(one: &Node, other: &Node) {
    let made = (0..TENANTS).map(|number| {
        let node = if number % 2 == 0 { one } else { other };
        node.site
            .tenant(json!({"id": format!("t{number}"), "start": false}))
    });
    futures::future::join_all(made).await;
}

/// The stored events of new tenants, as a node tells them.
async fn feed(node: &Node) -> Vec<Value> {
    let path = "/v1/events?follow=false&after=0&type=tenant.created";
    let request = node.site.request(&node.site.admin, Method::GET, path);
    let answer = node.site.send(request).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let lines = answer.text.lines();
    let data = lines.filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_is_the_same_at_every_node() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    make_tenants(&one, &other).await;
    let whole = eventually_some(TIMEOUT, async || {
        let events = feed(&one).await;
        (events.len() == TENANTS).then_some(events)
    });
    let events = whole.await.expect("events are missing");
    assert_eq!(feed(&other).await, events);
    let ids: Vec<u64> = events
        .iter()
        .map(|event| event["id"].as_u64().unwrap())
        .collect();
    assert!(ids.is_sorted(), "{ids:?}");
    let tenants: HashSet<&Value> = events.iter().map(|event| &event["tenantId"]).collect();
    assert_eq!(tenants.len(), TENANTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_webhook_is_sent_once_by_all_nodes_together() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    let target = WebhookTarget::new([]).await;
    let webhook = json!({"url": target.url, "events": ["tenant.created"]});
    let made = one.site.post("/v1/webhooks", &webhook).await.expect(201);
    make_tenants(&one, &other).await;
    let came = eventually(TIMEOUT, || target.received().len() >= TENANTS).await;
    assert!(came, "{:?}", target.received());
    // None is left to be sent.
    let deliveries = format!("/v1/webhooks/{}/deliveries", made["id"].as_str().unwrap());
    let waiting = format!("{deliveries}?state=pending");
    let all_sent = eventually_some(TIMEOUT, async || {
        let waiting = other.site.get(&waiting).await.expect(200);
        (waiting["deliveries"] == json!([])).then_some(())
    });
    all_sent.await.expect("deliveries wait");
    let received = target.received();
    let ids: HashSet<&str> = received.iter().map(|one| one.id.as_str()).collect();
    assert_eq!((ids.len(), received.len()), (TENANTS, TENANTS));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_open_at_another_node_hears_of_a_change_within_a_second() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    assert_changes_are_heard_in_time(&one.site, &other.site).await;
}
