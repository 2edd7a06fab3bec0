//! A client that others wrote, pinned to a version: OpenAI's own, in Python.

use std::{path::PathBuf, process::Command};

use hermes_testkit::model::{ScriptedAnswer, ScriptedUsage};

use super::*;

const VARIABLE: &str = "HERMES_TEST_VENV_OPENAI";

#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn python() -> Option<PathBuf> {
    if std::env::var_os("HERMES_TEST_SKIP_REAL").is_some_and(|value| value == "1") {
        println!(
            "SKIPPED: HERMES_TEST_SKIP_REAL is set, so nothing is tested with OpenAI's client"
        );
        return None;
    }
    let Some(place) = std::env::var_os(VARIABLE) else {
        panic!(
            "{VARIABLE} is not set: `./test` installs the client and sets it; for a single test run \
             `scripts/equipment install` and `eval \"$(scripts/equipment env)\"`, or set HERMES_TEST_SKIP_REAL=1"
        );
    };
    Some(PathBuf::from(place).join("bin/python"))
}

#[test]
fn openais_own_client_completes_streams_and_lists() {
    let Some(python) = python() else {
        return;
    };
    let usage = ScriptedUsage {
        prompt: 10,
        cached: 0,
        completion: 5,
    };
    let hello = ScriptedAnswer::pieces(["Hel", "lo"]).with(|reply| {
        reply.usage = Some(usage);
        reply.pause_ms = 200;
    });
    let place = GatewayHome::new(ModelScript::echo().rule("Say hello.", hello));
    let gateway = place.start();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/it/gateway/clients/openai_client.py"
    );
    let output = Command::new(python)
        .args([script, &format!("http://{}/v1", gateway.address), KEY])
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let problem = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{problem}"));
    let expected = json!({
        "models": ["hermes-agent"], "card": "hermes-agent", "whole": "Hello", "whole_tokens": 15,
        "pieces": "Hello", "several": true, "stream_tokens": 15, "finish": "stop", "again": "And again.",
        "refused": "invalid_api_key",
    });
    assert_eq!(report, expected);
    // The session went on: its first question is still there.
    let last = place.model.requests().pop().unwrap().body;
    assert_eq!(last["messages"].as_array().unwrap().len(), 4);
}

#[test]
fn openais_own_client_brings_tools_of_its_own() {
    let Some(python) = python() else {
        return;
    };
    // The result is the last message, so the rule for it comes first.
    let script = ModelScript::echo()
        .rule("22 degrees", ScriptedAnswer::text("It is warm."))
        .rule(
            "Ask the weather.",
            ScriptedAnswer::call("weather", &json!({"at": "Rome"})),
        )
        .rule("Say hello.", ScriptedAnswer::pieces(["Hel", "lo"]));
    let place = GatewayHome::new(script);
    let gateway = place.start();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/it/gateway/clients/openai_tools.py"
    );
    let output = Command::new(python)
        .args([script, &format!("http://{}/v1", gateway.address), KEY])
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let problem = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{problem}"));
    let expected = json!({
        "finish": "tool_calls", "called": ["weather"], "answer": "It is warm.",
        "streamed_finish": "tool_calls", "streamed": [{"at": "Rome"}],
        "response_calls": ["weather"], "response_answer": "It is warm.",
        "spoken": "Hello", "events": ["response.created", "response.completed"],
    });
    assert_eq!(report, expected);
}
