//! Software that others wrote beside a running gateway: the official Python client at the bridge, and a server that the
//! agent uses in a chat.

use std::process::Command;

use super::*;
use crate::harness::program::installed;

#[test]
fn the_python_sdk_hears_a_chat_and_writes_into_it() {
    let Some(python) = installed("HERMES_TEST_VENV_CLIENT", "bin/python") else {
        return;
    };
    let home = ChatHome::new(ModelScript::echo());
    let _gateway = home.start();
    let script = format!(
        "{}/tests/it/mcp/serve/clients/beside_gateway.py",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut client = Command::new(python);
    client
        .args([&script, &format!("telegram:{ADA}"), "from the client"])
        .env("HERMES_HOME", home.gateway.home.path())
        .env("BRIDGE", env!("CARGO_BIN_EXE_hermes"))
        .env("TELEGRAM_BOT_TOKEN", TOKEN)
        .env("TELEGRAM_BASE_URL", home.telegram.base_url())
        .stdout(std::process::Stdio::piped());
    let client = client.spawn().unwrap();
    // It answers the first thing that it hears. What is said before it listens is not an event for it.
    let mut said = 0;
    wait_until("the message of the client", || {
        let answers = home.telegram.answers(ADA);
        let answered = answers.iter().filter(|answer| *answer == "hello client");
        if answered.count() == said {
            home.telegram.say(ADA, "hello client");
            said += 1;
        }
        answers.iter().any(|answer| answer == "from the client")
    });
    let output = client.wait_with_output().unwrap();
    let heard = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{heard}");
    let heard: Value = serde_json::from_str(&heard).unwrap();
    assert_eq!(
        heard["session_key"],
        format!("agent:main:telegram:dm:{ADA}"),
        "{heard}"
    );
}

#[test]
fn a_server_in_python_is_used_in_a_chat() {
    let Some(git) = installed("HERMES_TEST_VENV", "bin/mcp-server-git") else {
        return;
    };
    let repository = tempfile::tempdir().unwrap();
    let made = Command::new("git")
        .args(["init", "--quiet"])
        .arg(repository.path())
        .status();
    assert!(made.unwrap().success());
    std::fs::write(repository.path().join("note.txt"), "x").unwrap();
    let call = ScriptedAnswer::call(
        "mcp_git_git_status",
        &json!({"repo_path": repository.path()}),
    );
    let script = ModelScript::new([call, ScriptedAnswer::text("There is a new file.")]);
    let servers = json!({"git": {"command": git}});
    let home = ChatHome::with_more(script, &format!("mcp_servers: {servers}"));
    let gateway = home.start();
    wait_until("the server is ready", || {
        let known = gateway.get("/health/detailed")["mcp_servers"].clone();
        known.to_string().contains("\"ready\"")
    });
    home.telegram.say(ADA, "what is new?");
    assert_eq!(home.wait_for_answers(ADA, 1), ["There is a new file."]);
    let told = home.last_turn().to_string();
    assert!(told.contains("note.txt"), "{told}");
}
