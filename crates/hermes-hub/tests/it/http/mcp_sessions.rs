//! MCP sessions and streams: their tokens and their end.

use std::time::{Duration, Instant};

use hermes_hub::api_types::Time;
use reqwest::Method;
use serde_json::json;

use crate::{
    agent_harness::ScriptedRuntime,
    mcp_client::{self, McpEra},
    test_hub::{TIMEOUT, TestHub},
};

/// A viewer's token: its id, and the token itself.
async fn viewer(site: &TestHub) -> (String, String) {
    let viewer = json!({"name": "a", "role": "viewer"});
    let minted = site.post("/v1/tokens", &viewer).await.expect(201);
    let text = |member: &str| minted[member].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

#[tokio::test]
async fn a_session_is_its_tokens_alone() {
    let site = TestHub::new().await;
    let (one, other) = (
        site.token(json!({"name": "a", "role": "viewer"})).await,
        site.token(json!({"name": "b", "role": "viewer"})).await,
    );
    let session = mcp_client::open_session(&site, &one).await;
    let McpEra::Session(id) = &session else {
        unreachable!()
    };
    assert_eq!(id.len(), 64);
    let ping = |token: &str| mcp_client::mcp_request(&site, token, &session, "ping", json!({}));
    assert_eq!(site.send(ping(&one)).await.status, 200);
    assert_eq!(site.send(ping(&other)).await.status, 404);
    for verb in [Method::GET, Method::DELETE] {
        let request = site
            .request(&other, verb, "/mcp")
            .header("accept", "text/event-stream")
            .header("mcp-session-id", id);
        assert_eq!(site.send(request).await.status, 404);
    }
    let missing = mcp_client::mcp_request(
        &site,
        &one,
        &McpEra::Session(String::new()),
        "ping",
        json!({}),
    );
    assert!([400, 404].contains(&site.send(missing).await.status));
    let ended = site
        .request(&one, Method::DELETE, "/mcp")
        .header("mcp-session-id", id);
    assert_eq!(site.send(ended).await.status, 204);
    assert_eq!(site.send(ping(&one)).await.status, 404);
}

#[tokio::test]
async fn revoking_a_token_ends_its_sessions_and_streams() {
    const END: Duration = Duration::from_secs(2);
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    let mut took = Vec::new();
    // A machine under load may be slow a few times, not every time.
    while took.last().is_none_or(|last| *last >= END) {
        assert!(took.len() < 8, "they ended after {took:?}");
        took.push(revoke_and_wait(&site).await);
    }
}

/// How long the streams of a token go on after it was revoked.
async fn revoke_and_wait(site: &TestHub) -> Duration {
    let (id, token) = viewer(site).await;
    let McpEra::Session(session) = mcp_client::open_session(site, &token).await else {
        unreachable!()
    };
    let stream = site
        .request(&token, Method::GET, "/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", session);
    let stream = stream.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let params = json!({"notifications": {"toolsListChanged": true}});
    let listening = mcp_client::mcp_request(
        site,
        &token,
        &McpEra::Stateless,
        "subscriptions/listen",
        params,
    )
    .send()
    .await
    .unwrap();
    assert_eq!(listening.status(), 200);
    site.delete(&format!("/v1/tokens/{id}")).await.expect(204);
    let began = Instant::now();
    let both = async { (stream.text().await, listening.text().await) };
    let (one, other) = tokio::time::timeout(TIMEOUT, both)
        .await
        .expect("streams go on");
    one.unwrap();
    other.unwrap();
    let took = began.elapsed();
    assert_eq!(
        site.send(site.request(&token, Method::GET, "/v1/whoami"))
            .await
            .status,
        401
    );
    took
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_of_the_protocol_and_bad_input_one_of_the_tool() {
    let site = TestHub::new().await;
    let reply = mcp_client::send_request(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "tools/call",
        json!({"name": "get_tenants", "arguments": {}}),
    )
    .await;
    assert_eq!(reply["error"]["code"], -32602);
    let problem = mcp_client::call_for_problem(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "get_tenant",
        &json!({"tenantId": "x"}),
    )
    .await;
    assert_eq!(problem["code"], "invalid_argument");
    let problem = mcp_client::call_for_problem(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "list_tenants",
        &json!({"limit": 5}),
    )
    .await;
    assert_eq!(problem["code"], "invalid_argument", "tools have no pages");
}

#[tokio::test]
async fn files_are_marked_as_data_of_others() {
    let site = TestHub::new().await.with_examples().await;
    let arguments =
        json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "notes/report.md"});
    let read = mcp_client::call_tool(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "read_share_file",
        &arguments,
    )
    .await;
    assert_eq!(read["_meta"]["hermes.hub/untrusted"], true);
    let own = mcp_client::call_tool(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "get_agent_policy",
        &json!({}),
    )
    .await;
    assert!(own["_meta"]["hermes.hub/untrusted"].is_null());
}

#[tokio::test]
async fn the_server_introduces_itself() {
    let site = TestHub::new().await;
    let answer = site.send(mcp_client::initialize(&site, &site.admin)).await;
    let result = mcp_client::parse_reply(&answer)["result"].clone();
    assert_eq!(result["serverInfo"]["name"], "hermes-hub");
    assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
    let instructions = result["instructions"].as_str().unwrap();
    assert!(instructions.contains("read-only tools") && instructions.contains("tokens"));
    let discovered = mcp_client::send_request(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "server/discover",
        json!({}),
    )
    .await;
    assert!(discovered["result"]["capabilities"]["tools"].is_object());
}

#[tokio::test]
async fn a_session_outlives_its_hub_and_stays_its_tokens_alone() {
    let mut site = TestHub::new().await;
    let (one, other) = (
        site.token(json!({"name": "a", "role": "viewer"})).await,
        site.token(json!({"name": "b", "role": "viewer"})).await,
    );
    let session = mcp_client::open_session(&site, &one).await;
    site.restart().await;
    let tools = mcp_client::send_request(&site, &one, &session, "tools/list", json!({})).await;
    assert!(tools["result"]["tools"].is_array(), "{tools}");
    let foreign = mcp_client::mcp_request(&site, &other, &session, "ping", json!({}));
    assert_eq!(site.send(foreign).await.status, 404);
}

#[tokio::test]
async fn a_session_is_served_by_any_node_and_ends_on_all() {
    let site = TestHub::new().await;
    let second = site.second_node().await;
    let session = mcp_client::open_session(&site, &site.admin).await;
    let McpEra::Session(id) = &session else {
        unreachable!()
    };
    let ping =
        |site: &TestHub| mcp_client::mcp_request(site, &site.admin, &session, "ping", json!({}));
    assert_eq!(second.send(ping(&second)).await.status, 200);
    let stream = site
        .request(&site.admin, Method::GET, "/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", id)
        .send()
        .await
        .unwrap();
    assert_eq!(stream.status(), 200);
    let end = second
        .request(&second.admin, Method::DELETE, "/mcp")
        .header("mcp-session-id", id);
    assert_eq!(second.send(end).await.status, 204);
    assert_eq!(second.send(ping(&second)).await.status, 404);
    let ended = tokio::time::timeout(TIMEOUT, stream.text()).await;
    ended.expect("the stream goes on").unwrap();
    assert_eq!(site.send(ping(&site)).await.status, 404);
}

#[tokio::test]
async fn beyond_the_limit_the_session_longest_idle_gives_way() {
    let site = TestHub::with_settings(|settings, _| settings.mcp.sessions_per_token = 2).await;
    let first = mcp_client::open_session(&site, &site.admin).await;
    let second = mcp_client::open_session(&site, &site.admin).await;
    let status = async |era: &McpEra| {
        let ping = mcp_client::mcp_request(&site, &site.admin, era, "ping", json!({}));
        site.send(ping).await.status
    };
    // A session was last used when its last reply ended, which the server notices a little later than the client.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(status(&first).await, 200);
    let third = mcp_client::open_session(&site, &site.admin).await;
    assert_eq!(status(&second).await, 404);
    assert_eq!((status(&first).await, status(&third).await), (200, 200));
}

#[tokio::test]
async fn a_token_that_expires_is_refused_from_then_on() {
    let site = TestHub::new().await;
    let expiry = Time::now().after(Duration::from_secs(3));
    let request = json!({"name": "short", "role": "viewer", "expiresAt": expiry});
    let token = site.token(request).await;
    let whoami = async || {
        let asked = site.request(&token, Method::GET, "/v1/whoami");
        site.send(asked).await
    };
    let before = whoami().await;
    assert!(
        before.status == 200 || Time::now() > expiry,
        "{}",
        before.text
    );
    assert!(hermes_testkit::eventually(TIMEOUT, || Time::now() > expiry).await);
    let refused = whoami().await;
    assert!(!refused.header("www-authenticate").is_empty());
    refused.expect(401);
    let list = mcp_client::mcp_request(&site, &token, &McpEra::Stateless, "tools/list", json!({}));
    assert_eq!(site.send(list).await.status, 401);
    let session = site.send(mcp_client::initialize(&site, &token)).await;
    assert_eq!(session.status, 401, "{}", session.text);
    // A token cannot be created expired.
    let late = json!({"name": "late", "role": "viewer", "expiresAt": expiry});
    site.post("/v1/tokens", &late).await.expect(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_a_token_ends_its_look_at_a_run() {
    let site = TestHub::with_runtime(ScriptedRuntime::new(), |_, _| {}).await;
    site.tenant(json!({"id": "acme"})).await;
    let runs = "/v1/tenants/acme/runs";
    let run = site.post(runs, &json!({"input": "wait"})).await.expect(202);
    let run = format!("{runs}/{}", run["runId"].as_str().unwrap());
    site.wait_until(&run, |run| run["status"] == "running")
        .await;
    let (id, token) = viewer(&site).await;
    let events = format!("{run}/events");
    let watch = |token: &str| site.request(token, Method::GET, &events).send();
    let (mut others, watched) = (
        watch(&site.admin).await.unwrap(),
        watch(&token).await.unwrap(),
    );
    assert_eq!(watched.status(), 200);
    site.delete(&format!("/v1/tokens/{id}")).await.expect(204);
    tokio::time::timeout(TIMEOUT, watched.text())
        .await
        .expect("the stream goes on")
        .unwrap();
    // The token ended, not the run.
    let shown = site.get(&run).await.expect(200);
    assert_eq!(shown["status"], "running", "{shown}");
    assert!(others.chunk().await.unwrap().is_some());
}
