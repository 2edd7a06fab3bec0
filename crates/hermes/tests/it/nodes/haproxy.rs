//! The balancer of the Compose file before three nodes of this machine.

use std::{fs, process::Command, time::Duration};

use hermes_testkit::{
    ReservedPort, eventually_some,
    nodes::{NODE_TIMEOUT, NodeCluster, NodeReply, NodeRequest},
    wait_until,
};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinSet,
};

use super::start_nodes;
use crate::harness::{program::installed, test_home::BackgroundProcess};

const CONFIGURATION: &str = include_str!("../../../../../deploy/compose/haproxy.cfg");

/// The same, with these nodes in place of those that Docker knows.
fn configuration(port: u16, cluster: &NodeCluster) -> String {
    let nodes = cluster.nodes.iter();
    let servers = nodes.map(|node| format!("    server {} 127.0.0.1:{}\n", node.id(), node.port()));
    let mut text = CONFIGURATION.to_owned();
    for (there, here) in [
        ("bind :7878", format!("bind 127.0.0.1:{port}")),
        (" init-addr none resolvers docker", String::new()),
        ("    server-template node 16 hub:7878\n", servers.collect()),
    ] {
        assert!(text.contains(there), "{there}: {text}");
        text = text.replace(there, &here);
    }
    text
}

/// Three nodes that work for a tenant, and the balancer before them.
struct BalancedNodes {
    cluster: NodeCluster,
    port: u16,
    _balancer: BackgroundProcess,
    _directory: TempDir,
}

impl BalancedNodes {
    /// Nothing where there is no haproxy.
    fn start() -> Option<Self> {
        let haproxy = installed("HERMES_TEST_HAPROXY", "")?;
        let cluster = start_nodes(3);
        let group = NodeRequest::new("POST", "/v1/groups", Some(json!({"id": "team"})));
        cluster.addresses.must_send(&group);
        cluster.create_tenant("acme");
        let reserved = ReservedPort::reserve().unwrap();
        let port = reserved.number();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("haproxy.cfg");
        fs::write(&file, configuration(port, &cluster)).unwrap();
        let mut command = Command::new(haproxy);
        command.args(["-db", "-f"]).arg(&file);
        let balancer = BackgroundProcess::start(command);
        let ready = NodeRequest::get("/v1/readyz");
        let is_there = wait_until(NODE_TIMEOUT, || {
            let answered = cluster.addresses.send_to(port, &ready);
            answered.is_ok_and(|reply| reply.is_success())
        });
        assert!(is_there, "nobody answers behind the balancer");
        drop(reserved);
        Some(Self {
            cluster,
            port,
            _balancer: balancer,
            _directory: directory,
        })
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// A node that does not work for the tenant.
    fn find_bystander(&self) -> usize {
        let mut nodes = 0..self.cluster.nodes.len();
        nodes
            .find(|node| self.cluster.tenants_of(*node).is_empty())
            .unwrap_or_else(|| panic!("all nodes work for the tenant"))
    }

    /// The reply of whichever node gets it, and success.
    #[track_caller]
    fn expect(&self, request: &NodeRequest) -> NodeReply {
        let answered = self.cluster.addresses.send_to(self.port, request);
        let reply = answered.unwrap_or_else(|error| panic!("{request:?}: {error:?}"));
        assert!(reply.is_success(), "{request:?}: {reply:?}");
        reply
    }

    /// A message of an MCP client, with its session.
    async fn send_mcp(&self, client: &Client, session: &str, message: &Value) -> Response {
        let mut request = client
            .post(self.url("/mcp"))
            .bearer_auth(self.cluster.addresses.token())
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(message.to_string());
        if !session.is_empty() {
            request = request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25");
        }
        request.send().await.unwrap()
    }

    async fn expect_tenant_by_mcp(&self, client: &Client, session: &str) {
        let params = json!({"name": "get_tenant", "arguments": {"tenant_id": "acme"}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let reply = self.send_mcp(client, session, &call).await;
        assert_eq!(reply.status(), 200);
        let text = reply.text().await.unwrap();
        assert!(text.contains("acme"), "{text}");
    }
}

#[test]
fn behind_a_balancer_requests_go_to_any_node_and_go_on_when_one_is_killed() {
    let Some(mut nodes) = BalancedNodes::start() else {
        return;
    };
    // Each may go to another node, and sees what the one before it has changed.
    let change_and_read = |nodes: &BalancedNodes, name: &str| {
        let change = json!({"displayName": name});
        let change = NodeRequest::new("PATCH", "/v1/tenants/acme", Some(change));
        nodes.expect(&change);
        let read = nodes.expect(&NodeRequest::get("/v1/tenants/acme"));
        assert_eq!(read.json()["displayName"], name);
    };
    for number in 0..20 {
        change_and_read(&nodes, &format!("Before {number}"));
    }
    let run = start_run(&nodes, "Hello");
    let has_ended = wait_until(NODE_TIMEOUT, || {
        nodes.expect(&NodeRequest::get(&run)).json()["status"] == "completed"
    });
    assert!(has_ended, "{:?}", nodes.expect(&NodeRequest::get(&run)));
    let events = nodes.expect(&NodeRequest::get(format!("{run}/events")));
    let events = events.body;
    assert!(events.contains("run.completed"), "{events}");
    assert!(events.ends_with(": stream closed\n\n"), "{events}");
    // The balancer notices it by connections that are refused, before it asks whether the node is ready.
    nodes.cluster.nodes[0].kill();
    for number in 0..20 {
        change_and_read(&nodes, &format!("After {number}"));
    }
}

/// The path of a new run.
fn start_run(nodes: &BalancedNodes, input: &str) -> String {
    let body = json!({"input": input});
    let run = NodeRequest::new("POST", "/v1/tenants/acme/runs", Some(body));
    let run = nodes.expect(&run).json();
    format!("/v1/tenants/acme/runs/{}", run["runId"].as_str().unwrap())
}

/// What a client has seen of a run: the number and name of each event, and over how many connections.
#[derive(Default)]
struct WatchedRun {
    events: Vec<(u64, String)>,
    connections: usize,
}

impl WatchedRun {
    fn last_id(&self) -> u64 {
        self.events.last().map_or(0, |(id, _)| *id)
    }

    fn is_over(&self) -> bool {
        let ends = ["run.completed", "run.failed", "run.cancelled"];
        let last = self.events.last();
        last.is_some_and(|(_, name)| ends.contains(&name.as_str()))
    }

    fn add(&mut self, message: &str) {
        let line = |start: &str| message.lines().find_map(|line| line.strip_prefix(start));
        if let (Some(id), Some(data)) = (line("id: "), line("data: ")) {
            let event: Value = serde_json::from_str(data).unwrap();
            let name = event["event"].as_str().unwrap().to_owned();
            self.events.push((id.parse().unwrap(), name));
        }
    }
}

/// Watches a run to its end. A stream that breaks is asked for again, from the last event on.
async fn watch(url: String, token: String, seen: UnboundedSender<u64>) -> WatchedRun {
    let client = Client::builder().no_proxy().build().unwrap();
    let mut watched = WatchedRun::default();
    while !watched.is_over() {
        let request = client.get(&url).bearer_auth(&token);
        let request = request.header("last-event-id", watched.last_id().to_string());
        let Ok(mut stream) = request.send().await else {
            continue;
        };
        if stream.status() != 200 {
            // The balancer has not noticed yet that a node is gone.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        }
        watched.connections += 1;
        let mut text = String::new();
        while let Ok(Some(chunk)) = stream.chunk().await {
            text.push_str(&String::from_utf8_lossy(&chunk));
            while let Some(end) = text.find("\n\n") {
                let message: String = text.drain(..end + 2).collect();
                watched.add(&message);
                // Nobody may be waiting for it.
                let _ = seen.send(watched.last_id());
            }
        }
    }
    watched
}

/// Agrees to what a run asks, until it has ended.
async fn decide_until_ended(nodes: &BalancedNodes, run: &str) {
    let ended = eventually_some(NODE_TIMEOUT, async || {
        let inbox = nodes.expect(&NodeRequest::get("/v1/approvals")).json();
        for approval in inbox["approvals"].as_array().into_iter().flatten() {
            let path = format!("/v1/approvals/{}", approval["approvalId"].as_str().unwrap());
            let decision = NodeRequest::new("POST", path, Some(json!({"choice": "once"})));
            nodes.expect(&decision);
        }
        let shown = nodes.expect(&NodeRequest::get(run)).json();
        (shown["status"] == "completed").then_some(())
    });
    assert!(ended.await.is_some(), "the run does not end");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_balancer_mcp_sessions_and_streams_of_events_outlive_the_node_that_served_them() {
    let Some(mut nodes) = BalancedNodes::start() else {
        return;
    };
    // Each request over a connection of its own, so that it goes to any node.
    let client = Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .build()
        .unwrap();
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let begun = nodes.send_mcp(&client, "", &initialize).await;
    assert_eq!(begun.status(), 200);
    let session = begun.headers()["mcp-session-id"].to_str().unwrap();
    let session = session.to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let told = nodes.send_mcp(&client, &session, &ready).await;
    assert_eq!(told.status(), 202);
    for _ in 0..6 {
        nodes.expect_tenant_by_mcp(&client, &session).await;
    }

    // It waits for a decision meanwhile.
    let run = start_run(&nodes, "do thing 1.");
    let waits = eventually_some(NODE_TIMEOUT, async || {
        let shown = nodes.expect(&NodeRequest::get(&run)).json();
        (shown["status"] == "waiting_for_approval").then_some(())
    });
    waits.await.expect("the run asks nothing");
    // The balancer gives the next stream to a node that has none yet.
    let mut watchers = JoinSet::new();
    for _ in 0..nodes.cluster.nodes.len() {
        let (seen, mut first) = unbounded_channel();
        let url = nodes.url(&format!("{run}/events"));
        let token = nodes.cluster.addresses.token().to_owned();
        watchers.spawn(watch(url, token, seen));
        let first = tokio::time::timeout(NODE_TIMEOUT, first.recv()).await;
        first.expect("no event comes").expect("the stream ends");
    }
    let bystander = nodes.find_bystander();
    nodes.cluster.nodes[bystander].kill();
    for _ in 0..6 {
        nodes.expect_tenant_by_mcp(&client, &session).await;
    }
    decide_until_ended(&nodes, &run).await;

    let seen = tokio::time::timeout(NODE_TIMEOUT, watchers.join_all()).await;
    let seen = seen.expect("a stream does not end");
    let connections: usize = seen.iter().map(|watched| watched.connections).sum();
    assert!(connections > seen.len(), "no stream was broken");
    for watched in &seen {
        let ids = watched.events.iter().map(|(id, _)| *id);
        assert!(ids.eq(1..=watched.last_id()), "{:?}", watched.events);
        assert_eq!(watched.events, seen[0].events);
    }
    let last = seen[0].events.last().map(|(_, name)| name.as_str());
    assert_eq!(last, Some("run.completed"));
}
