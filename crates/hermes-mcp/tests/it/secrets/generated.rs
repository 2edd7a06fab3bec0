//! Secrets that nobody thought of: generated ones, in every place where an error can carry them.

use hermes_testkit::{Behaviour, Era, ExitAtStart, TemporaryHome};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use serde_json::{Value, json};

use crate::{
    secrets,
    setup::{Log, Setup, stdio, with},
};

const COUNT: usize = 24;

/// Any characters but `$`, which would begin a reference.
const ANY: &str = "[!-#%-~äöü€]{8,40}";
/// The same, as far as they can stand in a header.
const PLAIN: &str = "[!-#%-~]{8,40}";

fn secrets(of: &str) -> Vec<String> {
    let mut runner = TestRunner::deterministic();
    let strategy = proptest::string::string_regex(of).unwrap();
    (0..COUNT)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect()
}

/// A home that keeps them in files, and the variables that refer to these. No name says that anything is secret.
fn kept(secrets: &[String]) -> (TemporaryHome, Value) {
    let home = TemporaryHome::new();
    let mut env = serde_json::Map::new();
    for (number, secret) in secrets.iter().enumerate() {
        home.write(&format!("kept/{number}"), secret);
        env.insert(
            format!("PLAIN_{number}"),
            format!("${{file:kept/{number}}}").into(),
        );
    }
    (home, env.into())
}

#[track_caller]
fn assert_clean(secrets: &[String], what: &str, text: &str) {
    for secret in secrets {
        let in_json = Value::from(secret.as_str()).to_string();
        let in_json = &in_json[1..in_json.len() - 1];
        let is_shown = text.contains(secret.as_str()) || text.contains(in_json);
        assert!(!is_shown, "{what} shows `{secret}`: {text}");
    }
}

#[tokio::test]
async fn calls_and_messages_of_a_local_server_show_none() {
    let secrets = secrets(ANY);
    for era in [Era::Legacy, Era::Stateless] {
        let log = Log::default();
        let _capturing = log.capture();
        let (home, env) = kept(&secrets);
        let entry = with(stdio(&Behaviour::new().era(era)), json!({ "env": env }));
        let setup = Setup::in_home(home, json!({ "s": entry })).await;
        let told = setup.call("mcp_s_environment", json!({})).await;
        for secret in &secrets {
            let given: Value = serde_json::from_str(told["result"].as_str().unwrap()).unwrap();
            let given = given.as_object().unwrap();
            let has_it = given.values().any(|value| value == secret.as_str());
            assert!(has_it, "the server has `{secret}`");
            let text = format!("refused: {secret}!");
            let nested = json!({
                "isError": true,
                "content": [{ "type": "text", "text": text }],
                "structuredContent": { "deep": [{ "reason": text }] },
            });
            for (tool, arguments) in [
                ("mcp_s_fail", json!({ "text": text })),
                ("mcp_s_fail", json!({ "text": text, "code": -32000 })),
                ("mcp_s_content", json!({ "result": nested })),
            ] {
                let told = setup.call(tool, arguments).await;
                assert!(told.get("error").is_some(), "{told}");
                assert_clean(&secrets, tool, &told.to_string());
            }
            let message = json!({ "level": "error", "message": { "why": secret } });
            setup.call("mcp_s_log", message).await;
        }
        for line in log.own_lines() {
            assert_clean(&secrets, "log", &line);
        }
    }
}

#[tokio::test]
async fn a_server_that_dies_with_them_on_its_lips_shows_none() {
    let secrets = secrets(ANY);
    let (home, env) = kept(&secrets);
    let log = Log::default();
    let _capturing = log.capture();
    let behaviour = Behaviour::new().process(|process| {
        process.exit_at_start = Some(ExitAtStart {
            code: 1,
            stderr: secrets.join(" and "),
        });
    });
    let entry = with(stdio(&behaviour), json!({ "env": env }));
    let setup = Setup::in_home(home, json!({ "s": entry })).await;
    let error = setup.status("s").error.unwrap();
    assert!(error.contains("[REDACTED] and [REDACTED]"), "{error}");
    assert_clean(&secrets, "status", &error);
    for line in log.own_lines() {
        assert_clean(&secrets, "log", &line);
    }
}

#[tokio::test]
async fn a_remote_server_that_repeats_them_shows_none() {
    let mut generated = secrets(PLAIN).into_iter().cycle();
    for (kind, how) in secrets::ANSWERS {
        for method in ["initialize", "tools/list", "tools/call", "resources/read"] {
            for secret in generated.by_ref().take(3) {
                let log = Log::default();
                let _capturing = log.capture();
                let remote = secrets::parrot(method, how).await;
                let home = TemporaryHome::new();
                home.write("key", &secret);
                let entry = json!({
                    "url": remote.url("/mcp"),
                    "headers": { "X-Key": "${file:key}" },
                    "skip_preflight": true,
                });
                let setup = Setup::in_home(home, json!({ "s": entry })).await;
                let sent = remote.seen();
                assert_eq!(sent[0].header("x-key"), Some(secret.as_str()));
                let only = std::slice::from_ref(&secret);
                let context = format!("{kind} to {method}");
                for (tool, arguments) in [
                    ("mcp_s_t", json!({})),
                    ("mcp_s_read_resource", json!({ "uri": "x://y" })),
                ] {
                    let told = setup.call(tool, arguments).await;
                    assert_clean(only, &context, &told.to_string());
                }
                assert_clean(only, &context, &json!(setup.status("s")).to_string());
                for line in log.own_lines() {
                    assert_clean(only, &context, &line);
                }
            }
        }
    }
}
