//! Secrets of the home stay in it.

use hermes_testkit::{
    Behaviour,
    model::{ModelScript, ScriptedAnswer},
};
use serde_json::json;

use super::Chat;
use crate::harness::program::entry;

const SECRET: &str = "hunter2-very-plain-text";

#[test]
fn a_secret_in_the_env_file_does_not_reach_the_model() {
    let chat = Chat::new(ModelScript::echo());
    let env = chat.hermes.home.path().join(".env").display().to_string();
    chat.hermes
        .home
        .write_env(&format!("TEAM_API_KEY={SECRET}\n"));
    let calls = [
        format!("/call read_file path={env}"),
        format!("/call search_files pattern=hunter path={env}"),
        "/call terminal command='env; echo \"$TEAM_API_KEY\"'".to_owned(),
    ];
    for call in &calls {
        let ran = chat.run_with(&["-q", call], &[("TEAM_API_KEY", SECRET)]);
        assert!(!ran.stdout.contains(SECRET), "{ran:?}");
        assert!(!ran.stderr.contains(SECRET), "{ran:?}");
    }
}

#[test]
fn a_model_that_looks_for_secrets_finds_none() {
    let chat = Chat::new(ModelScript::new([
        ScriptedAnswer::calls([
            ("read_file", json!({"path": "../.env"})),
            ("search_files", json!({"pattern": "hunter2", "path": ".."})),
            ("terminal", json!({"command": "env"})),
        ]),
        ScriptedAnswer::text("nothing"),
    ]));
    chat.hermes
        .home
        .write_env(&format!("TEAM_API_KEY={SECRET}\n"));
    chat.run_with(
        &["-q", "look"],
        &[("TEAM_API_KEY", SECRET), ("HARMLESS", "yes")],
    )
    .ok();
    let asked = serde_json::to_string(&chat.model.requests()[1].body).unwrap();
    assert!(asked.contains("HARMLESS=yes"), "{asked}");
    assert!(!asked.contains(SECRET), "{asked}");
    let log = chat.hermes.read("logs/hermes.log");
    assert!(!log.contains(SECRET), "{log}");
}

#[test]
fn a_secret_that_the_model_tells_a_server_is_taken_out() {
    let script = ModelScript::new([
        ScriptedAnswer::call("mcp_kit_sample", &json!({"prompt": "What is the key?"})),
        ScriptedAnswer::text(&format!("It is {SECRET}, I think.")),
        ScriptedAnswer::text("Done."),
    ]);
    let chat = Chat::with_servers(script, &[("kit", entry(&Behaviour::new()))]);
    chat.hermes
        .home
        .write_env(&format!("TEAM_API_KEY={SECRET}\n"));
    chat.run(&["-z", "use the tool"]).ok();
    // The tool's result is what the server was told.
    let told = chat.request_messages(2).pop().unwrap().to_string();
    assert!(told.contains("It is [REDACTED], I think."), "{told}");
}

#[test]
fn no_secret_is_in_any_other_file_of_the_home() {
    const OF_SERVER: &str = "plain-words-of-the-server";
    const OF_MODEL: &str = "plain-words-of-the-model";
    let script = ModelScript::new([
        ScriptedAnswer::calls([
            ("mcp_kit_echo", json!({"text": "hello"})),
            ("terminal", json!({"command": "env"})),
            ("read_file", json!({"path": "../.env"})),
            ("read_file", json!({"path": "../config.yaml"})),
        ]),
        ScriptedAnswer::text("Done."),
        ScriptedAnswer::status(401, "no such key"),
    ])
    .with_key(OF_MODEL);
    let mut kit = entry(&Behaviour::new());
    kit["env"] = json!({"KIT_TOKEN": OF_SERVER, "TEAM": "${TEAM_API_KEY}"});
    let chat = Chat::with_servers(script, &[("kit", kit)]);
    let config = chat.hermes.config().replace("key-main", OF_MODEL);
    chat.hermes.home.write_config(&config);
    chat.hermes
        .home
        .write_env(&format!("TEAM_API_KEY={SECRET}\n"));
    let variables = [("TEAM_API_KEY", SECRET)];
    chat.run_with(&["-q", "look"], &variables).ok();
    chat.run_with(&["-c", "-q", "again"], &variables)
        .exits_with(1);

    let mut looked_at = 0;
    let mut directories = vec![chat.hermes.home.path().to_owned()];
    while let Some(directory) = directories.pop() {
        for selection in std::fs::read_dir(directory).unwrap() {
            let selection = selection.unwrap();
            let (path, kind) = (selection.path(), selection.file_type().unwrap());
            let is_source = ["config.yaml", ".env"]
                .iter()
                .any(|name| path == chat.hermes.home.path().join(name));
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() && !is_source {
                looked_at += 1;
                let bytes = std::fs::read(&path).unwrap();
                for secret in [SECRET, OF_SERVER, OF_MODEL] {
                    let has_it = bytes
                        .windows(secret.len())
                        .any(|window| window == secret.as_bytes());
                    assert!(!has_it, "`{secret}` is in {}", path.display());
                }
            }
        }
    }
    // The conversation, the log and what is remembered of the server at least.
    assert!(looked_at >= 3, "{looked_at}");
}
