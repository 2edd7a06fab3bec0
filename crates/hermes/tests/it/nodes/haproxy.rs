//! The balancer of the Compose file before three nodes of this machine.

use std::{fs, process::Command};

use hermes_testkit::{
    ReservedPort,
    nodes::{NODE_TIMEOUT, NodeCluster, NodeReply, NodeRequest},
    wait_until,
};
use serde_json::json;

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

#[test]
fn behind_a_balancer_requests_go_to_any_node_and_go_on_when_one_is_killed() {
    let Some(haproxy) = installed("HERMES_TEST_HAPROXY", "") else {
        return;
    };
    let mut cluster = start_nodes(3);
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
    let _balancer = BackgroundProcess::start(command);
    let addresses = cluster.addresses.clone();
    let ask = |request: &NodeRequest| addresses.send_to(port, request);
    let is_there = wait_until(NODE_TIMEOUT, || {
        ask(&NodeRequest::get("/v1/readyz")).is_ok_and(|reply| reply.is_success())
    });
    assert!(is_there, "nobody answers behind the balancer");
    drop(reserved);
    let expect = |request: NodeRequest| -> NodeReply {
        let reply = ask(&request).unwrap_or_else(|error| panic!("{request:?}: {error:?}"));
        assert!(reply.is_success(), "{request:?}: {reply:?}");
        reply
    };
    // Each may go to another node, and sees what the one before it has changed.
    let change_and_read = |name: &str| {
        let change = json!({"displayName": name});
        let change = NodeRequest::new("PATCH", "/v1/tenants/acme", Some(change));
        expect(change);
        let read = expect(NodeRequest::get("/v1/tenants/acme"));
        assert_eq!(read.json()["displayName"], name);
    };
    for number in 0..20 {
        change_and_read(&format!("Before {number}"));
    }
    let run = NodeRequest::new(
        "POST",
        "/v1/tenants/acme/runs",
        Some(json!({"input": "Hello"})),
    );
    let run = expect(run).json();
    let run = format!("/v1/tenants/acme/runs/{}", run["runId"].as_str().unwrap());
    let has_ended = wait_until(NODE_TIMEOUT, || {
        expect(NodeRequest::get(&run)).json()["status"] == "completed"
    });
    assert!(has_ended, "{:?}", expect(NodeRequest::get(&run)));
    let events = expect(NodeRequest::get(format!("{run}/events"))).body;
    assert!(events.contains("run.completed"), "{events}");
    assert!(events.ends_with(": stream closed\n\n"), "{events}");
    // The balancer notices it by connections that are refused, before it asks whether the node is ready.
    cluster.nodes[0].kill();
    for number in 0..20 {
        change_and_read(&format!("After {number}"));
    }
}
