//! A chat at a terminal waits for a decision, and clients of bridges make it.

use hermes_testkit::{
    model::{ModelScript, ScriptedAnswer},
    recorded,
};

use super::*;
use crate::harness::chat_terminal::{ChatHome, ChatTerminal};

/// A chat that asks whether a directory may be deleted.
fn place() -> ChatHome {
    let script = ModelScript::new([
        ScriptedAnswer::call("terminal", &json!({"command": "rm -r build"})),
        ScriptedAnswer::text("Done."),
    ]);
    let place = ChatHome::with_model(script, &[]);
    place.home.write("build/file", "x");
    place
}

fn bridge(place: &ChatHome) -> BridgeProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermes"));
    command
        .args(["mcp", "serve"])
        .env("HERMES_HOME", place.home.path());
    BridgeProcess::initialize(command)
}

/// Has the chat ask.
fn asked(place: &ChatHome) -> ChatTerminal {
    let talk = place.start_chat(&[]);
    talk.line("clean up");
    talk.wait_for("[d]eny");
    talk
}

fn is_deleted(place: &ChatHome) -> bool {
    !place.home.path().join("build").exists()
}

/// The next event after a cursor.
#[track_caller]
fn next(bridge: &mut BridgeProcess, after: &Value) -> Value {
    let wait = json!({"after_cursor": after, "timeout_ms": 30_000});
    let answer = bridge.call_tool("events_wait", &wait);
    assert!(answer["event"].is_object(), "{answer}");
    answer["event"].clone()
}

fn respond(id: &Value, decision: &str) -> Value {
    json!({"id": id, "decision": decision})
}

#[test]
fn what_is_allowed_through_the_bridge_runs_in_the_chat() {
    let place = place();
    let mut bridge = bridge(&place);
    let talk = asked(&place);
    let requested = next(&mut bridge, &json!(0));
    assert_eq!(requested["type"], "approval_requested");
    assert_eq!(requested["kind"], "exec");
    assert_eq!(requested["command"], "rm -r build");
    let listed = bridge.call_tool("permissions_list_open", &json!({}));
    assert_eq!(listed["count"], 1, "{listed}");
    let id = &listed["approvals"][0]["id"];
    assert_eq!(*id, requested["approval_id"]);
    assert!(!is_deleted(&place));

    let response = bridge.call_tool("permissions_respond", &respond(id, "allow-once"));
    assert_eq!(
        response,
        json!({"resolved": true, "approval_id": id, "decision": "allow-once"})
    );
    talk.wait_for("allowed once");
    talk.wait_for("Done.");
    assert!(is_deleted(&place));
    let resolved = next(&mut bridge, &requested["cursor"]);
    assert_eq!(resolved["type"], "approval_resolved");
    assert_eq!(resolved["approval_id"], *id);
    assert_eq!(resolved["decision"], "allow-once");
    assert_eq!(
        bridge.call_tool("permissions_list_open", &json!({})),
        json!({"count": 0, "approvals": []})
    );
}

#[test]
fn what_is_denied_through_the_bridge_does_not_run() {
    let place = place();
    let mut bridge = bridge(&place);
    let talk = asked(&place);
    let requested = next(&mut bridge, &json!(0));
    let id = &requested["approval_id"];
    let response = bridge.call_tool("permissions_respond", &respond(id, "deny"));
    assert_eq!(response["resolved"], true, "{response}");
    talk.wait_for("Done.");
    assert!(!is_deleted(&place));
    let resolved = next(&mut bridge, &requested["cursor"]);
    assert_eq!(
        (&resolved["type"], &resolved["decision"]),
        (&json!("approval_resolved"), &json!("deny"))
    );
}

#[test]
fn of_two_clients_one_decides() {
    let place = place();
    let (mut one, mut two) = (bridge(&place), bridge(&place));
    let talk = asked(&place);
    let requested = next(&mut one, &json!(0));
    assert_eq!(next(&mut two, &json!(0)), requested);
    let id = &requested["approval_id"];
    one.send_call("permissions_respond", &respond(id, "allow-once"));
    two.send_call("permissions_respond", &respond(id, "deny"));
    let (allowed, denied) = (one.answer(), two.answer());
    let late = json!({"error": format!("Approval already resolved: {}", id.as_str().unwrap())});
    let is_allowed = allowed["resolved"] == true;
    let (winner, loser, decision) = if is_allowed {
        (&allowed, &denied, "allow-once")
    } else {
        (&denied, &allowed, "deny")
    };
    assert_eq!(winner["resolved"], true, "{allowed} {denied}");
    assert_eq!(*loser, late);
    talk.wait_for("Done.");
    assert_eq!(is_deleted(&place), is_allowed);
    for bridge in [&mut one, &mut two] {
        let resolved = next(bridge, &requested["cursor"]);
        assert_eq!(resolved["decision"], decision);
    }
}

#[test]
fn what_is_decided_at_the_terminal_is_told() {
    let place = place();
    let talk = asked(&place);
    // It is asked before anybody is there to hear it.
    let mut bridge = bridge(&place);
    let began = Instant::now();
    let id = loop {
        let listed = bridge.call_tool("permissions_list_open", &json!({}));
        if listed["count"] == 1 {
            break listed["approvals"][0]["id"].clone();
        }
        assert!(began.elapsed() < TIMEOUT, "{listed}");
    };
    // By now the log has begun.
    bridge.call_tool("events_poll", &json!({}));
    talk.keys("s\r");
    talk.wait_for("Done.");
    let mut resolved = next(&mut bridge, &json!(0));
    while resolved["type"] != "approval_resolved" {
        resolved = next(&mut bridge, &resolved["cursor"]);
    }
    assert_eq!(resolved["decision"], "allow-session");
    let late = bridge.call_tool("permissions_respond", &respond(&id, "deny"));
    assert_eq!(
        late["error"],
        format!("Approval already resolved: {}", id.as_str().unwrap())
    );
}

/// Has the chat ask about the tool.
fn asked_about_tool(place: &ChatHome) -> ChatTerminal {
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk.line("wipe it");
    talk.wait_for("[d]eny");
    talk
}

fn is_called(record: &std::path::Path) -> bool {
    !recorded(record, "tools/call").is_empty()
}

#[test]
fn a_tool_that_is_asked_about_is_called_once_a_client_of_the_bridge_allows_it() {
    for approve in [json!("wi*"), json!(["@destructive"])] {
        let (place, record) = ChatHome::wiping(&approve, &["all of it"]);
        let mut bridge = bridge(&place);
        let talk = asked_about_tool(&place);
        let requested = next(&mut bridge, &json!(0));
        assert_eq!(requested["type"], "approval_requested");
        assert_eq!(requested["command"], "kit.wipe {\"text\":\"all of it\"}");
        assert!(!is_called(&record), "{approve}");
        let id = &requested["approval_id"];
        let response = bridge.call_tool("permissions_respond", &respond(id, "allow-once"));
        assert_eq!(response["resolved"], true, "{response}");
        talk.wait_for("Done.");
        assert!(is_called(&record), "{approve}");
    }
}

#[test]
fn a_tool_that_a_client_of_the_bridge_denies_is_never_called() {
    let (place, record) = ChatHome::wiping(&json!("*"), &["all of it"]);
    let mut bridge = bridge(&place);
    let talk = asked_about_tool(&place);
    let requested = next(&mut bridge, &json!(0));
    bridge.call_tool(
        "permissions_respond",
        &respond(&requested["approval_id"], "deny"),
    );
    talk.wait_for("Done.");
    assert!(!is_called(&record));
}
