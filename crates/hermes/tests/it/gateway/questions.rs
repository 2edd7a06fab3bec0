//! What runs wait for: servers that ask, people who decide, and those who stop them.

use std::time::{Duration, Instant};

use hermes_testkit::{
    Behaviour, Era,
    model::{ReplyEnding, ScriptedAnswer},
};

use super::*;
use crate::harness::{
    program::entry,
    test_home::{assert_once_within, wait_until},
};

fn with_server(script: ModelScript, more: &str) -> GatewayHome {
    let kit = entry(&Behaviour::new().era(Era::Legacy));
    let servers = json!({"kit": kit});
    GatewayHome::with_more(script, &format!("mcp_servers: {servers}\n{more}"))
}

impl GatewayProcess {
    /// The first question of a run.
    fn question(&self, run: &str) -> Value {
        let shown = || self.get(&format!("/v1/runs/{run}"));
        wait_until("a question", || shown()["status"] == "waiting_for_approval");
        let stored = self.get(&format!("/v1/runs/{run}"));
        assert_eq!(stored["last_event"], "approval.request", "{stored}");
        stored
    }
}

#[test]
fn a_servers_question_waits_with_the_approvals_of_its_run() {
    let form = json!({
        "mode": "form", "message": "May I?",
        "requestedSchema": {
            "type": "object", "required": ["sure"],
            "properties": {"sure": {"type": "boolean"}, "note": {"type": "string", "default": "x"}},
        },
    });
    let secret = json!({
        "mode": "form", "message": "Who are you?",
        "requestedSchema": {
            "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}},
        },
    });
    let script = ModelScript::new([
        ScriptedAnswer::call("mcp_kit_elicit", &json!({"params": form})),
        ScriptedAnswer::text("done"),
        ScriptedAnswer::call("mcp_kit_elicit", &json!({"params": form})),
        ScriptedAnswer::text("done"),
        ScriptedAnswer::call("mcp_kit_elicit", &json!({"params": secret})),
        ScriptedAnswer::text("done"),
    ]);
    let place = with_server(script, "approvals: {mode: 'off', timeout: 60}");
    let gateway = place.start();
    let told = || {
        let request = place.model.requests().pop().unwrap();
        request.body["messages"].to_string()
    };
    for (choice, expected) in [("once", "accept"), ("deny", "decline")] {
        let run = gateway.run(&json!({"input": "ask"}));
        gateway.question(&run);
        let path = format!("/v1/runs/{run}/approval");
        let (status, decided) = gateway.post(&path, &json!({"choice": choice}));
        assert_eq!(status, 200, "{decided}");
        gateway.wait_for(&run, "completed");
        assert!(told().contains(expected), "{choice}: {}", told());
    }
    assert!(told().contains("decline"));
    // What a yes cannot fill in waits for its answers.
    let run = gateway.run(&json!({"input": "ask"}));
    gateway.question(&run);
    let path = format!("/v1/runs/{run}/approval");
    for wrong in [
        json!({"choice": "once"}),
        json!({"choice": "once", "content": {}}),
        json!({"choice": "once", "content": {"name": 5}}),
        json!({"choice": "once", "content": {"name": "Ada", "age": 36}}),
        json!({"choice": "deny", "content": {"name": "Ada"}}),
        json!({"choice": "once", "cancel": true}),
    ] {
        let (status, refused) = gateway.post(&path, &wrong);
        assert_eq!(status, 400, "{wrong}: {refused}");
    }
    let answers = json!({"choice": "once", "content": {"name": "Ada"}});
    let (status, decided) = gateway.post(&path, &answers);
    assert_eq!(status, 200, "{decided}");
    gateway.wait_for(&run, "completed");
    assert!(told().contains("Ada"), "{}", told());
}

#[test]
fn a_form_is_told_to_those_who_watch_and_can_be_left() {
    let form = json!({
        "mode": "form", "message": "Who are you?",
        "requestedSchema": {
            "type": "object", "required": ["name"], "properties": {"name": {"type": "string", "title": "Your name"}},
        },
    });
    let script = ModelScript::new([
        ScriptedAnswer::call("mcp_kit_elicit", &json!({"params": form})),
        ScriptedAnswer::text("done"),
    ]);
    let place = with_server(script, "approvals: {mode: 'off', timeout: 60}");
    let gateway = place.start();
    let run = gateway.run(&json!({"input": "ask"}));
    gateway.question(&run);
    let path = format!("/v1/runs/{run}/approval");
    let (status, decided) = gateway.post(&path, &json!({"choice": "deny", "cancel": true}));
    assert_eq!(status, 200, "{decided}");
    gateway.wait_for(&run, "completed");
    let request = place.model.requests().pop().unwrap();
    let told = request.body["messages"].as_array().unwrap().last().unwrap();
    assert!(told.to_string().contains("cancel"), "{told}");
    let events = gateway.events(&run);
    let asked = events
        .iter()
        .find(|event| event["event"] == "approval.request");
    let form = &asked.unwrap()["form"];
    assert_eq!(form["server"], "kit");
    assert_eq!(form["message"], "Who are you?");
    let title = &form["schema"]["properties"]["name"]["title"];
    assert_eq!(title, "Your name");
}

#[test]
fn a_page_is_told_to_those_who_watch_and_opened_declined_or_left() {
    let page = json!({
        "mode": "url", "message": "Please log in.", "elicitationId": "login-1",
        "url": "https://login.example.com/start?next=_a_&b=1",
    });
    let decisions = [
        (json!({"choice": "once"}), "accept"),
        (json!({"choice": "deny"}), "decline"),
        (json!({"choice": "deny", "cancel": true}), "cancel"),
    ];
    let ask = || ScriptedAnswer::call("mcp_kit_elicit_url", &json!({"params": page}));
    let answers = decisions
        .iter()
        .flat_map(|_| [ask(), ScriptedAnswer::text("done")]);
    let script = ModelScript::new(answers);
    let place = with_server(script, "approvals: {mode: 'off', timeout: 60}");
    let gateway = place.start();
    for (decision, outcome) in &decisions {
        let run = gateway.run(&json!({"input": "ask"}));
        gateway.question(&run);
        let path = format!("/v1/runs/{run}/approval");
        let filled = json!({"choice": "once", "content": {}});
        let (status, refused) = gateway.post(&path, &filled);
        assert_eq!(status, 400, "{refused}");
        let (status, decided) = gateway.post(&path, decision);
        assert_eq!(status, 200, "{decided}");
        gateway.wait_for(&run, "completed");
        let request = place.model.requests().pop().unwrap();
        let told = request.body["messages"].as_array().unwrap().last().unwrap();
        assert!(told.to_string().contains(outcome), "{decision}: {told}");
        let events = gateway.events(&run);
        let asked = events
            .iter()
            .find(|event| event["event"] == "approval.request");
        let form = &asked.unwrap()["form"];
        assert_eq!(form["server"], "kit");
        assert_eq!(form["message"], "Please log in.");
        assert_eq!(form["url"], page["url"]);
    }
}

#[test]
fn a_stopped_run_is_over_within_a_second_whatever_it_waits_for() {
    let stalled = ScriptedAnswer::text("begun").with(|reply| reply.ending = ReplyEnding::Stalled);
    let script = ModelScript::default()
        .rule("model", stalled)
        .rule(
            "command",
            ScriptedAnswer::call("terminal", &json!({"command": "sleep 600"})),
        )
        .rule(
            "server",
            ScriptedAnswer::call("mcp_kit_sleep", &json!({"ms": 600_000})),
        )
        .rule(
            "person",
            ScriptedAnswer::call("terminal", &json!({"command": "rm -r /tmp/none"})),
        );
    let place = with_server(script, "approvals: {timeout: 600}");
    let gateway = place.start();
    for (input, last_event) in [
        ("model", "message.delta"),
        ("command", "tool.started"),
        ("server", "tool.started"),
        ("person", "approval.request"),
    ] {
        assert_once_within(Duration::from_secs(1), || {
            let run = gateway.run(&json!({"input": input}));
            let path = format!("/v1/runs/{run}");
            wait_until("work", || gateway.get(&path)["last_event"] == last_event);
            let asked = Instant::now();
            gateway.post(&format!("{path}/stop"), &json!({}));
            gateway.wait_for(&run, "cancelled");
            asked.elapsed()
        });
    }
}
