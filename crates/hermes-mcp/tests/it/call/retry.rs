//! Calls after a lost connection: repeated once where that can do no harm, else never.

use hermes_testkit::{Behaviour, Era, Fault, FaultKind, ReplyFormat, TemporaryHome, Tool};
use serde_json::json;

use crate::setup::{RecordedServer, Setup, TransportKind, with_neighbour};

/// The same action under three names, with different promises.
fn tools(action: &str) -> [Tool; 3] {
    [
        Tool::named("act").acting_as(action),
        Tool::named("look")
            .acting_as(action)
            .with("annotations", json!({ "readOnlyHint": true })),
        Tool::named("set")
            .acting_as(action)
            .with("annotations", json!({ "idempotentHint": true })),
    ]
}

#[tokio::test]
async fn a_call_that_killed_its_server_is_sent_again_only_if_it_is_harmless() {
    for era in [Era::Legacy, Era::Stateless] {
        for (tool, times) in [("act", 1), ("look", 2), ("set", 2)] {
            let home = TemporaryHome::new();
            let behaviour = Behaviour::new().era(era).tools(tools("crash"));
            let peer = RecordedServer::new(TransportKind::Stdio, behaviour, home.path());
            let setup = Setup::in_home(home, with_neighbour(json!({ "s": peer.entry }))).await;
            let error = setup.error(&format!("mcp_s_{tool}"), json!({})).await;
            assert!(error.contains("lost"), "{error}");
            assert_eq!(peer.calls(tool).len(), times, "{era:?}: {tool}");
            setup.assert_neighbour_is_well().await;
        }
    }
}

#[tokio::test]
async fn a_call_whose_reply_was_cut_off_is_sent_again_only_if_it_is_harmless() {
    for (era, trouble, reply) in [
        (Era::Legacy, FaultKind::Hangup, ReplyFormat::Sse),
        (Era::Stateless, FaultKind::Hangup, ReplyFormat::Sse),
        (Era::Stateless, FaultKind::Cut, ReplyFormat::Sse),
        (Era::Legacy, FaultKind::Cut, ReplyFormat::Json),
        (Era::Stateless, FaultKind::Cut, ReplyFormat::Json),
        (Era::Stateless, FaultKind::Status(502), ReplyFormat::Sse),
    ] {
        for (tool, is_harmless) in [("act", false), ("look", true), ("set", true)] {
            let home = TemporaryHome::new();
            let behaviour = Behaviour::new().era(era).tools(tools("echo")).http(|http| {
                http.reply = reply;
                http.faults
                    .push(Fault::on("tools/call", trouble.clone()).times(1));
            });
            let peer = RecordedServer::new(TransportKind::Http, behaviour, home.path());
            let setup = Setup::in_home(home, with_neighbour(json!({ "s": peer.entry }))).await;
            let name = format!("mcp_s_{tool}");
            let told = setup.call(&name, json!({ "text": "hi" })).await;
            let requests = peer.server.as_ref().unwrap().requests();
            let sent = requests
                .iter()
                .filter(|request| request.rpc_method() == "tools/call")
                .count();
            let context = format!("{era:?}, {trouble:?}, {tool}: {told}");
            if is_harmless {
                assert_eq!(told, json!({ "result": "hi" }), "{context}");
                assert_eq!(sent, 2, "{context}");
            } else {
                assert!(told["error"].is_string(), "{context}");
                assert_eq!(sent, 1, "{context}");
            }
            setup.assert_neighbour_is_well().await;
        }
    }
}

#[tokio::test]
async fn a_call_after_the_crash_is_not_part_of_it_and_waits_for_the_server_to_return() {
    let home = TemporaryHome::new();
    let mut offered = tools("echo").to_vec();
    offered.push(Tool::named("crash"));
    let peer = RecordedServer::new(
        TransportKind::Stdio,
        Behaviour::new().tools(offered),
        home.path(),
    );
    let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
    setup.error("mcp_s_crash", json!({})).await;
    // The server promises nothing about this tool, but it cannot have seen the call.
    let told = setup.call("mcp_s_act", json!({ "text": "back" })).await;
    assert_eq!(told, json!({ "result": "back" }));
    assert_eq!(peer.calls("act").len(), 1);
    assert_eq!(setup.status("s").restarts, 1);
}

#[tokio::test]
async fn a_server_that_is_gone_is_named_and_the_call_counted_once() {
    let home = TemporaryHome::new();
    let mut peer = RecordedServer::new(TransportKind::Http, Behaviour::new(), home.path());
    let setup = Setup::in_home(home, with_neighbour(json!({ "s": peer.entry }))).await;
    // It keeps its port, so that nobody else answers there.
    let server = peer.server.as_mut().unwrap();
    server.stop();
    let origin = server.origin();
    let error = setup.error("mcp_s_counter", json!({})).await;
    assert!(
        error.contains(&format!("no connection to {origin}")),
        "{error}"
    );
    let counts = setup.status("s").calls;
    assert_eq!((counts.total, counts.errors), (1, 1));
    setup.assert_neighbour_is_well().await;
}
