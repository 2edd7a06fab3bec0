//! Commands within a conversation, over a pipe.

use std::os::unix::fs::PermissionsExt as _;

use hermes_testkit::{
    Behaviour,
    model::{ModelScript, ScriptedAnswer},
};
use serde_json::json;

use super::{Chat, assert_messages};
use crate::harness::program::{entry, run};

const PICTURE: &[u8] = b"\x89PNG and so on";

fn lines(chat: &Chat, lines: &[&str]) -> crate::harness::program::CommandOutput {
    let input = lines.join("\n") + "\n";
    chat.hermes.run_with_input(&[], &input)
}

#[test]
fn a_server_is_switched_off_and_on_for_good() {
    let chat = Chat::with_servers(ModelScript::echo(), &[("kit", entry(&Behaviour::new()))]);
    let has_tools = |request: usize| {
        let tools = chat.tools(request);
        tools.iter().any(|name| name.starts_with("mcp_kit_"))
    };
    let ran = lines(&chat, &["/mcp disable kit", "off", "/mcp"]).ok();
    assert!(ran.stdout.contains("`kit` is now disabled."), "{ran:?}");
    assert!(ran.stdout.contains("disabled"), "{ran:?}");
    assert_eq!(chat.hermes.entry("kit")["enabled"], false);
    assert!(!has_tools(0));
    let ran = lines(&chat, &["/mcp enable kit", "on"]).ok();
    assert!(ran.stdout.contains("`kit` is now enabled."), "{ran:?}");
    assert_eq!(chat.hermes.entry("kit")["enabled"], true);
    assert!(has_tools(1));
    let ran = lines(&chat, &["/mcp disable nobody"]).exits_with(1);
    assert!(ran.stderr.contains("nobody"), "{ran:?}");
}

#[test]
fn jobs_are_listed_and_steered() {
    let chat = Chat::new(ModelScript::echo());
    let ran = lines(&chat, &["/cron"]).ok();
    assert!(ran.stdout.contains("There is no scheduled job"), "{ran:?}");
    let job = [
        "cron",
        "create",
        "every 2h",
        "Look around",
        "--id",
        "look",
        "--name",
        "Look",
    ];
    chat.run(&job).ok();
    let ran = lines(&chat, &["/cron"]).ok();
    assert!(ran.stdout.contains("look  Look (every "), "{ran:?}");
    let state = || {
        let listed = chat.run(&["cron", "list", "--all", "--json"]).ok().json();
        listed["jobs"][0]["state"].clone()
    };
    lines(&chat, &["/cron pause look"]).ok();
    assert_eq!(state(), "paused");
    lines(&chat, &["/cron resume Look"]).ok();
    assert_eq!(state(), "scheduled");
    let ran = lines(&chat, &["/cron pause nothing"]).exits_with(1);
    assert!(ran.stderr.contains("`/cron` lists the jobs"), "{ran:?}");
}

#[test]
fn an_image_goes_with_the_next_message_only() {
    let chat = Chat::new(ModelScript::echo());
    std::fs::write(chat.hermes.user().join("a.png"), PICTURE).unwrap();
    let ran = lines(&chat, &["/image a.png", "what is it?", "and now?"]).ok();
    assert!(
        ran.stdout.contains("a.png goes with your next message."),
        "{ran:?}"
    );
    let content = chat.request_messages(0)[0]["content"].clone();
    assert_eq!(content[0]["text"], "what is it?");
    let url = content[1]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,"), "{url}");
    assert_eq!(
        chat.request_messages(1).last().unwrap()["content"],
        "and now?"
    );
    lines(&chat, &["/image missing.png"]).exits_with(2);
}

#[test]
fn what_is_in_the_clipboard_goes_with_the_next_message() {
    let chat = Chat::new(ModelScript::echo());
    // A clipboard with text and no image.
    let programs = chat.hermes.user().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let reader = programs.join("wl-paste");
    std::fs::write(
        &reader,
        "#!/bin/sh\n[ \"$1\" = --no-newline ] && printf 'copied words'\n",
    )
    .unwrap();
    std::fs::set_permissions(&reader, std::fs::Permissions::from_mode(0o755)).unwrap();
    let with_path = |path: &str, input: &str| {
        let mut command = chat.hermes.command(&[]);
        command.env("PATH", path);
        run(command, input)
    };
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let ran = with_path(&path, "/paste\nlook at this\n").ok();
    assert!(
        ran.stdout
            .contains("\"copied words\" goes with your next message."),
        "{ran:?}"
    );
    assert_eq!(
        chat.request_messages(0)[0]["content"],
        "copied words\n\nlook at this"
    );
    let nowhere = chat.hermes.user().join("nowhere").display().to_string();
    let ran = with_path(&nowhere, "/paste\n").exits_with(1);
    assert!(ran.stderr.contains("wl-clipboard"), "{ran:?}");
}

#[test]
fn the_configuration_is_told_without_its_secrets() {
    let chat = Chat::with_config(
        ModelScript::echo(),
        json!({"mcp_servers": {"kit": entry(&Behaviour::new())}, "compression": {"threshold": 7}}),
    );
    let ran = lines(&chat, &["hi", "/config"]).ok();
    for part in ["config.yaml", ".env", "scripted", "compression.threshold"] {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
    assert!(!ran.stdout.contains("key-main"), "{ran:?}");
}

#[test]
fn several_turns_are_taken_back_at_once() {
    let chat = Chat::new(ModelScript::echo());
    let ran = lines(&chat, &["one", "two", "three", "/undo 2", "four"]).ok();
    assert!(
        ran.stdout.contains("Undid 2 turns, from \"two\" on."),
        "{ran:?}"
    );
    assert_messages(
        &chat.stored_texts(),
        &[
            ("user", "one"),
            ("assistant", "one"),
            ("user", "four"),
            ("assistant", "four"),
        ],
    );
    let ran = lines(&chat, &["/undo many"]).exits_with(2);
    assert!(ran.stderr.contains("not a number of turns"), "{ran:?}");
}

#[test]
fn a_conversation_is_summed_up_when_the_person_wants_it() {
    let chat = Chat::with_config(
        ModelScript::echo().rule("question 3", ScriptedAnswer::text("They asked questions.")),
        json!({"compression": {"protect_first_n": 1, "protect_last_n": 2}}),
    );
    // The summary is asked for with all questions in one message; each question alone is echoed.
    let mut input: Vec<String> = (0..8).map(|number| format!("item {number}")).collect();
    input[3] = "question 3".into();
    input.push("/compress".into());
    input.push("go on".into());
    let input: Vec<&str> = input.iter().map(String::as_str).collect();
    let ran = lines(&chat, &input).ok();
    assert!(
        (ran.stdout.clone() + &ran.stderr).contains("its middle was summarized"),
        "{ran:?}"
    );
    let said = chat.stored_texts();
    assert!(said.len() < 12, "{said:?}");
    let summary = said
        .iter()
        .find(|(_, text)| text.contains("They asked questions."));
    assert!(summary.is_some(), "{said:?}");
    let requests = chat.model.requests();
    let asked = requests.last().unwrap().body["messages"].to_string();
    assert!(asked.contains("They asked questions."), "{asked}");
    assert!(!asked.contains("item 2"), "{asked}");
}
