//! Secrets of the home stay in it.

use hermes_testkit::{
    Behaviour,
    model::{Answer, Script},
};
use serde_json::json;

use super::Chat;
use crate::program::entry;

const SECRET: &str = "hunter2-very-plain-text";

#[test]
fn a_secret_in_the_env_file_does_not_reach_the_model() {
    let chat = Chat::new(Script::echo());
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
    let chat = Chat::new(Script::new([
        Answer::calls([
            ("read_file", json!({"path": "../.env"})),
            ("search_files", json!({"pattern": "hunter2", "path": ".."})),
            ("terminal", json!({"command": "env"})),
        ]),
        Answer::text("nothing"),
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
    let script = Script::new([
        Answer::call("mcp_kit_sample", &json!({"prompt": "What is the key?"})),
        Answer::text(&format!("It is {SECRET}, I think.")),
        Answer::text("Done."),
    ]);
    let chat = Chat::with_servers(script, &[("kit", entry(&Behaviour::new()))]);
    chat.hermes
        .home
        .write_env(&format!("TEAM_API_KEY={SECRET}\n"));
    chat.run(&["-z", "use the tool"]).ok();
    // The tool's result is what the server was told.
    let told = chat.asked(2).pop().unwrap().to_string();
    assert!(told.contains("It is [REDACTED], I think."), "{told}");
}
