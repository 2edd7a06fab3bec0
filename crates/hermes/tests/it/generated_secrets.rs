//! Secrets that nobody thought of: generated ones, in all that commands print and a home keeps.

use std::{fs, path::Path};

use hermes_testkit::Behaviour;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use serde_json::{Value, json};

use crate::harness::program::{Hermes, entry, run};

/// Any characters but `$`, which would begin a reference.
const ANY: &str = "[!-#%-~äöü€]{8,40}";

fn generated(count: usize) -> Vec<String> {
    let mut runner = TestRunner::deterministic();
    let strategy = proptest::string::string_regex(ANY).unwrap();
    let one = |_| strategy.new_tree(&mut runner).unwrap().current();
    (0..count).map(one).collect()
}

#[track_caller]
fn assert_clean(secrets: &[String], what: &str, text: &str) {
    for secret in secrets {
        let in_json = Value::from(secret.as_str()).to_string();
        let in_json = &in_json[1..in_json.len() - 1];
        let is_shown = text.contains(secret.as_str()) || text.contains(in_json);
        assert!(!is_shown, "{what} shows `{secret}`:\n{text}");
    }
}

/// Every file below a directory but those that hold the secrets on purpose.
fn files(directory: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("kept") {
            continue;
        }
        if path.is_dir() {
            files(&path, found);
        } else if let Ok(bytes) = fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            found.push((path.display().to_string(), text));
        }
    }
}

#[test]
fn no_command_prints_one_and_no_file_keeps_one() {
    let secrets = generated(16);
    let hermes = Hermes::new();
    let mut variables = serde_json::Map::new();
    for (number, secret) in secrets.iter().enumerate() {
        hermes.home.write(&format!("kept/{number}"), secret);
        // No name says that anything is secret.
        let reference = format!("${{file:kept/{number}}}");
        variables.insert(format!("PLAIN_{number}"), reference.into());
    }
    let mut kit = entry(&Behaviour::new());
    kit["env"] = variables.clone().into();
    // Its last words are all its variables.
    let dead = json!({
        "command": "/bin/sh",
        "args": ["-c", "env | grep PLAIN_ >&2; exit 1"],
        "env": variables,
    });
    let far = json!({
        "url": "http://127.0.0.1:9/mcp?with=${file:kept/0}",
        "headers": { "X-Plain": "${file:kept/1}" },
        "connect_timeout": 5,
    });
    let config = json!({ "mcp_servers": { "kit": kit, "dead": dead, "far": far } });
    hermes.home.write_config(&config.to_string());

    let text = json!({ "text": format!("no: {}!", secrets.join(" or ")) }).to_string();
    for arguments in [
        vec!["mcp", "call", "kit.fail", &text],
        vec!["mcp", "call", "kit.fail", &text, "--json"],
        vec!["mcp", "test", "dead"],
        vec!["mcp", "test", "dead", "--json"],
        vec!["mcp", "test", "far", "--json"],
        vec!["mcp", "test", "--all", "--json"],
        vec!["mcp", "list", "--json"],
        vec!["mcp", "status", "--json"],
        vec!["mcp", "doctor", "--probe", "--json"],
        vec!["logs", "mcp"],
    ] {
        let mut command = hermes.command(&arguments);
        command.env("HERMES_LOG", "debug");
        let ran = run(command, "");
        let all = format!("{}{}", ran.stdout, ran.stderr);
        // What was typed as an argument is not repeated either.
        assert_clean(&secrets, &arguments.join(" "), &all);
        if arguments.contains(&"kit.fail") || arguments == ["mcp", "test", "dead"] {
            assert!(all.contains("[REDACTED]"), "{all}");
        }
    }
    let mut crashing = hermes.command(&["mcp", "list"]);
    crashing.env("HERMES_TEST_CRASH", secrets.join(" or "));
    let crashed = run(crashing, "");
    assert!(
        crashed.stderr.contains("[REDACTED] or [REDACTED]"),
        "{crashed:#?}"
    );
    assert_clean(&secrets, "the crash", &crashed.stderr);

    let mut kept = Vec::new();
    files(hermes.home.path(), &mut kept);
    assert!(kept.iter().any(|(path, _)| path.ends_with("config.yaml")));
    for (path, text) in kept {
        assert_clean(&secrets, &path, &text);
    }
}
