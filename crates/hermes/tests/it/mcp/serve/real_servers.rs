//! Clients that others wrote, pinned to a version, on both transports: the Python SDK, both generations of the
//! TypeScript SDK, and the inspector.

mod python_hermes;

use super::*;
use crate::harness::program::installed;

fn script(name: &str) -> String {
    format!(
        "{}/tests/it/mcp/serve/clients/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// A bridge over HTTP whose token is `t0ken`, and its address.
fn listening(hermes: &Hermes) -> (BridgeProcess, String) {
    let mut command = hermes.command(&["mcp", "serve", "--http", "127.0.0.1:0"]);
    command.env("HERMES_BRIDGE_TOKEN", "t0ken");
    let mut piped = BridgeProcess::start(command);
    let mut line = String::new();
    let mut stderr = BufReader::new(piped.child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    let url = line
        .trim()
        .strip_prefix("listening on ")
        .unwrap()
        .to_owned();
    (piped, url)
}

/// Runs a client and gives back the object it prints.
fn run(mut command: Command, hermes: &Hermes) -> Value {
    let output = command
        .env("HERMES_HOME", hermes.home.path())
        .env("BRIDGE", env!("CARGO_BIN_EXE_hermes"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = || {
        format!(
            "{command:?}\n{text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
    };
    assert!(output.status.success(), "{}", problem());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}", problem()))
}

#[track_caller]
fn check(report: &Value, version: &str) {
    assert_eq!(report["version"], version, "{report}");
    assert_eq!(report["tools"].as_array().unwrap().len(), 10, "{report}");
    assert_eq!(report["tools"][0], "conversations_list", "{report}");
    let read: Value = serde_json::from_str(report["text"].as_str().unwrap()).unwrap();
    assert_eq!(read["messages"][0]["content"], "hello", "{report}");
    assert_eq!(report["structured"]["result"], report["text"], "{report}");
    assert_eq!(report["resources"][0], "hermes://conversations", "{report}");
    assert_eq!(report["prompts"].as_array().unwrap().len(), 3, "{report}");
    assert_eq!(report["refused"], true, "{report}");
}

#[test]
fn the_python_sdk_in_both_eras() {
    let Some(python) = installed("HERMES_TEST_VENV_CLIENT", "bin/python") else {
        return;
    };
    let hermes = with_chat();
    let (_bridge, url) = listening(&hermes);
    for (mode, version) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        for transport in ["stdio", &url] {
            let mut command = Command::new(&python);
            command.args([&script("python.py"), mode, transport]);
            check(&run(command, &hermes), version);
        }
    }
}

#[test]
fn both_generations_of_the_typescript_sdk() {
    let Some(node) = installed("HERMES_TEST_CLIENTS", "node/bin/node") else {
        return;
    };
    let hermes = with_chat();
    let (_bridge, url) = listening(&hermes);
    for (mode, version) in [
        ("first", "2025-11-25"),
        ("legacy", "2025-11-25"),
        ("2026-07-28", "2026-07-28"),
    ] {
        for transport in ["stdio", &url] {
            let mut command = Command::new(&node);
            command.args([&script("typescript.mjs"), mode, transport]);
            check(&run(command, &hermes), version);
        }
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
    let hermes = with_chat();
    let (_bridge, url) = listening(&hermes);
    let bridge = env!("CARGO_BIN_EXE_hermes");
    let home = format!("HERMES_HOME={}", hermes.home.path().display());
    for transport in [
        vec!["-e", &home, bridge, "mcp", "serve"],
        vec![
            &url,
            "--transport",
            "http",
            "--header",
            "Authorization: Bearer t0ken",
        ],
    ] {
        let mut list = Command::new(&node);
        list.arg(&inspector)
            .arg("--cli")
            .args(&transport)
            .args(["--method", "tools/list"]);
        let listed = run(list, &hermes);
        assert_eq!(listed["tools"].as_array().unwrap().len(), 10, "{listed}");
        let mut call = Command::new(&node);
        call.arg(&inspector).arg("--cli").args(&transport);
        call.args([
            "--method",
            "tools/call",
            "--tool-name",
            "messages_read",
            "--tool-arg",
        ]);
        call.arg(format!("session_key={KEY}"));
        let called = run(call, &hermes);
        assert_eq!(called["isError"], false, "{called}");
        assert!(
            called["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains("hello"),
            "{called}"
        );
    }
}
