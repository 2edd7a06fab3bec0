//! Programs that others wrote, as clients of a Hub: the official inspector, the Python SDK, both generations of the
//! TypeScript SDK, and schemathesis.

mod schemathesis;

use std::process::Command;

use hermes_hub::operations::{Toolset, table};
use serde_json::{Value, json};

use super::examples::{EMPTY, examples, refused};
use crate::{harness::program::installed, hub::hub_process::HubProcess};

/// A Hub in which the examples work.
fn hub() -> HubProcess {
    HubProcess::with_examples(&["sync.allowed_roots=/sync"])
}

fn script(name: &str) -> String {
    format!("{}/tests/it/hub/clients/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs a client and gives back the object it prints.
fn run(mut command: Command) -> Value {
    let output = command.env("NO_PROXY", "*").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = || {
        let told = String::from_utf8_lossy(&output.stderr);
        format!("{}\n{text}\n{told}", command.get_program().display())
    };
    assert!(output.status.success(), "{}", problem());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}", problem()))
}

/// The standard tools are there, in order.
#[track_caller]
fn check_tools(names: &[&str]) {
    let standard: Vec<_> = table()
        .rows()
        .filter(|operation| operation.toolset == Toolset::Standard)
        .map(|operation| operation.name)
        .collect();
    assert_eq!(standard.len(), 34);
    assert_eq!(names, standard);
}

/// What a tool of the examples must give: one text, the same as structured content.
#[track_caller]
fn check_example(tool: &str, text: &str, structured: &Value, is_error: &Value) {
    assert_ne!(*is_error, true, "{tool}: {text}");
    if EMPTY.contains(&tool) {
        assert_eq!(text, r#"{"ok": true}"#, "{tool}");
    }
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(*structured, value, "{tool}");
}

#[track_caller]
fn check_refusal(tool: &str, text: &str, is_error: &Value, code: &str, status: u64) {
    assert_eq!(*is_error, true, "{tool}: {text}");
    let problem: Value = serde_json::from_str(text).unwrap();
    assert_eq!(problem["code"], code, "{tool}: {problem}");
    assert_eq!(problem["status"], status, "{tool}: {problem}");
    assert!(problem["message"].is_string() && problem["requestId"].is_string());
}

/// Lets an SDK list the tools, call every example and be refused, and looks at what came back.
#[track_caller]
fn check_sdk(version: &str, make: impl Fn(&str, &str, &str) -> Command) {
    let hub = hub();
    let refused = refused();
    // Refusals first: they need what the examples delete.
    let calls: Vec<_> = refused
        .iter()
        .map(|(tool, arguments, ..)| (tool.clone(), arguments.clone()))
        .chain(examples())
        .collect();
    let command = make(
        &format!("{}/mcp", hub.url),
        &hub.token(),
        &json!(calls).to_string(),
    );
    let report = run(command);
    assert_eq!(report["version"], version);
    let names = report["tools"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|name| name.as_str().unwrap()).collect();
    check_tools(&names);
    let answers = report["answers"].as_array().unwrap();
    assert_eq!(answers.len(), calls.len());
    for (number, ((tool, _), answer)) in calls.iter().zip(answers).enumerate() {
        assert_eq!(
            answer["texts"].as_array().unwrap().len(),
            1,
            "{tool}: {answer}"
        );
        let text = answer["texts"][0].as_str().unwrap();
        match refused.get(number) {
            Some((.., code, status)) => {
                check_refusal(tool, text, &answer["isError"], code, *status);
            }
            None => check_example(tool, text, &answer["structured"], &answer["isError"]),
        }
    }
}

#[test]
fn the_python_sdk_in_both_eras() {
    let Some(python) = installed("HERMES_TEST_VENV_CLIENT", "bin/python") else {
        return;
    };
    for (mode, version) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        check_sdk(version, |url, token, calls| {
            let mut command = Command::new(&python);
            command.args([&script("python.py"), mode, url, token, calls]);
            command
        });
    }
}

#[test]
fn both_generations_of_the_typescript_sdk() {
    let Some(node) = installed("HERMES_TEST_CLIENTS", "node/bin/node") else {
        return;
    };
    for (mode, version) in [
        ("first", "2025-11-25"),
        ("legacy", "2025-11-25"),
        ("2026-07-28", "2026-07-28"),
    ] {
        check_sdk(version, |url, token, calls| {
            let mut command = Command::new(&node);
            command.args([&script("typescript.mjs"), mode, url, token, calls]);
            command
        });
    }
}

#[test]
fn the_inspector() {
    let Some(node) = installed("HERMES_TEST_CLIENTS", "node/bin/node") else {
        return;
    };
    let Some(inspector) = installed("HERMES_TEST_CLIENTS", ".bin/mcp-inspector") else {
        return;
    };
    let hub = hub();
    let header = format!("Authorization: Bearer {}", hub.token());
    let url = format!("{}/mcp", hub.url);
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(&node);
        command
            .arg(&inspector)
            .args(["--cli", &url, "--transport", "http"]);
        command.args(["--header", &header]).args(arguments);
        command
    };
    let listed = run(ask(&["--method", "tools/list"]));
    let tools = listed["tools"].as_array().unwrap().iter();
    let names: Vec<_> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
    check_tools(&names);
    let call = |tool: &str, arguments: &Value| {
        let arguments = arguments.to_string();
        ask(&[
            "--method",
            "tools/call",
            "--tool-name",
            tool,
            "--tool-args-json",
            &arguments,
        ])
    };
    for (tool, arguments, code, status) in refused() {
        // It ends with a code of its own when a tool refuses, but prints the answer all the same.
        let output = call(&tool, &arguments).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = answer["content"][0]["text"].as_str().unwrap();
        check_refusal(&tool, text, &answer["isError"], code, status);
    }
    for (tool, arguments) in examples() {
        let answer = run(call(&tool, &arguments));
        let text = answer["content"][0]["text"].as_str().unwrap();
        check_example(
            &tool,
            text,
            &answer["structuredContent"],
            &answer["isError"],
        );
    }
}
