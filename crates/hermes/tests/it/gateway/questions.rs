//! What runs wait for: servers that ask, people who decide, and those who stop them.

use std::time::{Duration, Instant};

use hermes_testkit::{
    Behaviour, Era,
    model::{ReplyEnding, ScriptedAnswer},
};

use super::*;
use crate::harness::{program::entry, test_home::wait_until};

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
    // What a yes cannot fill in is declined at once.
    let run = gateway.run(&json!({"input": "ask"}));
    gateway.wait_for(&run, "completed");
    assert!(told().contains("decline"), "{}", told());
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
        // One try may meet a machine that is busy with something else.
        let took = (0..3).map(|_| {
            let run = gateway.run(&json!({"input": input}));
            let path = format!("/v1/runs/{run}");
            wait_until("work", || gateway.get(&path)["last_event"] == last_event);
            let asked = Instant::now();
            gateway.post(&format!("{path}/stop"), &json!({}));
            gateway.wait_for(&run, "cancelled");
            asked.elapsed()
        });
        let took: Vec<_> = took.collect();
        assert!(
            took.iter().any(|took| *took < Duration::from_secs(1)),
            "{input}: {took:?}"
        );
    }
}
