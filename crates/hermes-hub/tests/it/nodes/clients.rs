//! Clients whose requests go to whichever node: MCP sessions, streams and rates.

use std::time::{Duration, Instant};

use hermes_testkit::eventually_some;
use reqwest::Method;
use serde_json::json;

use super::cluster::{Cluster, Node, TIMEOUT};
use crate::mcp_client::{McpEra, call_for_text, mcp_request, open_session};

/// Streams of a token that was revoked end within this time.
const TOKEN_END: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_at_another_node_in_both_eras() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    one.site
        .tenant(json!({"id": "acme", "displayName": "Acme"}))
        .await;
    let admin = one.site.admin.clone();
    let session = open_session(&one.site, &admin).await;
    let tenant = json!({"tenant_id": "acme"});
    for era in [&session, &McpEra::Stateless] {
        for site in [&other.site, &one.site, &other.site] {
            let shown = call_for_text(site, &admin, era, "get_tenant", &tenant).await;
            assert!(shown.contains("Acme"), "{shown}");
        }
    }
    // Ended at one node, it is over at all.
    let McpEra::Session(id) = &session else {
        unreachable!()
    };
    let end = other.site.request(&admin, Method::DELETE, "/mcp");
    let ended = other.site.send(end.header("mcp-session-id", id)).await;
    assert!((200..300).contains(&ended.status), "{}", ended.text);
    let gone = eventually_some(TIMEOUT, async || {
        let list = mcp_request(&one.site, &admin, &session, "tools/list", json!({}));
        (one.site.send(list).await.status == 404).then_some(())
    });
    gone.await.expect("the session goes on at the other node");
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_a_token_at_one_node_ends_its_streams_at_another() {
    let cluster = Cluster::new().await;
    let (one, other) = cluster.holder_and_other("acme").await;
    let run = one.run("acme", "wait").await;
    one.run_becomes("acme", &run, "running").await;
    let run = format!("/v1/tenants/acme/runs/{run}");
    let events = format!("{run}/events");
    let others = other
        .site
        .request(&other.site.admin, Method::GET, &events)
        .send();
    let mut others = others.await.unwrap();
    let mut took = Vec::new();
    // A machine under load may be slow a few times, not every time.
    while took.last().is_none_or(|last| *last >= TOKEN_END) {
        assert!(took.len() < 8, "they ended after {took:?}");
        took.push(revoke_and_wait(&one, &other, &events).await);
    }
    // The token ended, not the run, nor what others see of it.
    assert_eq!(one.site.get(&run).await.expect(200)["status"], "running");
    assert!(others.chunk().await.unwrap().is_some());
}

/// How long the streams of a token go on at a node after it was revoked at the other.
async fn revoke_and_wait(one: &Node, other: &Node, events: &str) -> Duration {
    let viewer = json!({"name": "a", "role": "viewer"});
    let minted = one.site.post("/v1/tokens", &viewer).await.expect(201);
    let token = minted["token"].as_str().unwrap();
    let watched = other.site.request(token, Method::GET, events).send();
    let watched = watched.await.unwrap();
    let McpEra::Session(session) = open_session(&other.site, token).await else {
        unreachable!()
    };
    let stream = other
        .site
        .request(token, Method::GET, "/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", session);
    let stream = stream.send().await.unwrap();
    assert_eq!(watched.status(), 200);
    assert_eq!(stream.status(), 200);
    let path = format!("/v1/tokens/{}", minted["id"].as_str().unwrap());
    one.site.delete(&path).await.expect(204);
    let revoked_at = Instant::now();
    let both = async { (watched.text().await, stream.text().await) };
    let ended = tokio::time::timeout(TIMEOUT, both).await;
    let (watched, stream) = ended.expect("the streams go on");
    watched.unwrap();
    stream.unwrap();
    revoked_at.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_holds_for_all_nodes_together() {
    const BURST: u32 = 40;
    let mut cluster = Cluster::new().await;
    cluster.lease_seconds = 6;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    for node in [&one, &other] {
        let hub = &node.site.hub;
        let mut settings = hermes_hub::settings::Settings::clone(&hub.settings());
        settings.limits.rps_per_token = 1;
        settings.limits.burst = BURST;
        // Each knows of the other by its next report.
        let shared = eventually_some(TIMEOUT, async || {
            let reply = node.site.get("/v1/whoami").await;
            (reply.header("ratelimit-limit") == "50000").then_some(())
        });
        shared.await.expect("each node allows all of it");
        hub.reload(&settings);
    }
    let began = std::time::Instant::now();
    let mut answered = 0;
    for node in [&one, &other].into_iter().cycle().take(4 * BURST as usize) {
        let reply = node.site.get("/v1/whoami").await;
        match reply.status {
            200 => answered += 1,
            status => assert_eq!(status, 429, "{}", reply.text),
        }
    }
    // What came back meanwhile is allowed, too.
    let most = u64::from(BURST) + began.elapsed().as_secs() + 2;
    assert!(answered <= most, "{answered} requests, not {most}");
    assert!(answered >= u64::from(BURST) / 2, "{answered} requests");
}
