//! What servers and files say never steers the terminal, whichever command shows it.

use std::fs;

use hermes_config::Home;
use hermes_gateway::access::{CodeOffer, PairingStore};
use hermes_testkit::{Behaviour, Tool};
use serde_json::{Value, json};

use crate::harness::{
    nasty_conversation::{CONVERSATION, store_nasty_conversation},
    program::{Hermes, local},
    terminal::{NASTY, Terminal, assert_clean, clean},
    test_home::TestHome,
};

fn kit() -> Value {
    let tool = |name: &str, acting: &str| {
        Tool::defined(json!({
            "name": name,
            "title": NASTY,
            "description": NASTY,
            "inputSchema": {"type": "object", "properties": {
                "text": {"type": "string", "description": NASTY, "default": NASTY},
                "result": {"type": "object", "description": NASTY},
            }},
        }))
        .acting_as(acting)
    };
    let mut behaviour = Behaviour::new().tools([
        tool("echo", "echo"),
        tool("fail", "fail"),
        tool("content", "content"),
        tool(&format!("odd{NASTY}"), "echo"),
    ]);
    behaviour.instructions = Some(NASTY.into());
    let (command, argument) = local(&behaviour);
    // YAML takes no control characters.
    let argument = argument.replace('\u{9b}', "\\u009b");
    json!({"command": command, "args": [argument]})
}

#[test]
fn no_command_about_servers_lets_them_steer_the_terminal() {
    let home = TestHome::with_servers(&[("kit", kit())]);
    let text = format!("text={NASTY}");
    let result = json!({"result": {"content": [{"type": "text", "text": NASTY}], "structuredContent": {"a": NASTY}}});
    let result = result.to_string();
    let wrong = format!("text:={}", json!([NASTY]));
    for (arguments, code) in [
        (&["mcp", "test", "kit"][..], 0),
        (&["mcp", "test", "--all"], 0),
        (&["mcp", "call", "kit.echo", &text], 0),
        (&["mcp", "call", "kit.echo", &text, "--raw"], 0),
        (&["mcp", "call", "kit.echo", &text, "--json"], 0),
        (&["mcp", "call", "kit.fail", &text], 1),
        (&["mcp", "call", "kit.content", &result], 0),
        (&["mcp", "call", "kit.echo", &wrong], 2),
        (&["mcp", "call", "kit.ech"], 3),
        (&["mcp", "tools"], 0),
        (&["mcp", "tools", "kit"], 0),
        (&["mcp", "tools", "kit.echo"], 0),
        (&["mcp", "resources"], 0),
        (&["mcp", "prompts"], 0),
        (&["mcp", "doctor", "--probe"], 0),
        (&["mcp", "status"], 0),
        (&["mcp", "status", "kit"], 0),
        (&["mcp", "get", "kit"], 0),
        (&["mcp", "list"], 0),
        (&["-q", &format!("/call kit.echo text='{NASTY}'")], 0),
    ] {
        clean(home.command(arguments), code);
    }
    // The same by a running process.
    let _up = home.up(&["kit: ready"]);
    let echoed = clean(home.command(&["mcp", "call", "kit.echo", &text]), 0);
    assert!(echoed.contains("ABCDE"), "{echoed:?}");
}

#[test]
fn logs_and_stored_texts_do_not_steer_the_terminal() {
    let home = TestHome::with_servers(&[]);
    fs::create_dir_all(home.path().join("logs")).unwrap();
    fs::write(
        home.path().join("logs/mcp-stderr.log"),
        format!("{NASTY}\n"),
    )
    .unwrap();
    fs::write(home.path().join("logs/hermes.log"), format!("{NASTY}\n")).unwrap();
    let skill = home.path().join("skills/odd/odd");
    fs::create_dir_all(&skill).unwrap();
    let text = format!("---\nname: odd\ndescription: Odd.\n---\n{NASTY}\n");
    fs::write(skill.join("SKILL.md"), text).unwrap();
    let jobs = json!({"jobs": [{"id": "0123456789ab", "name": NASTY, "prompt": NASTY, "schedule": {"kind": "interval", "minutes": 60, "display": "every 60m"}, "enabled": true, "state": "scheduled"}]});
    fs::create_dir_all(home.path().join("cron")).unwrap();
    fs::write(home.path().join("cron/jobs.json"), jobs.to_string()).unwrap();
    store_nasty_conversation(&home.path());
    let channels = json!({"platforms": {"telegram": [{"id": "5", "name": NASTY, "type": "dm"}]}});
    let state = json!({"pid": 1, "exit_reason": NASTY});
    for (file, text) in [
        ("channel_directory.json", channels),
        ("gateway_state.json", state),
    ] {
        fs::write(home.path().join(file), text.to_string()).unwrap();
    }
    let pairing = PairingStore::new(&Home::at(home.path()));
    let offer = pairing.request_code("telegram", "5", NASTY).unwrap();
    assert!(matches!(offer, CodeOffer::Issued(_)));
    for arguments in [
        &["logs", "mcp"][..],
        &["logs", "hermes"],
        &["skills", "list"],
        &["skills", "view", "odd"],
        &["cron", "list", "--all"],
        &["mcp", "catalog"],
        &["sessions", "list"],
        &["sessions", "list", "--json"],
        &["sessions", "show", CONVERSATION],
        &["sessions", "show", CONVERSATION, "--json"],
        &["sessions", "search", "needle"],
        &["sessions", "export", CONVERSATION],
        &["channels", "list"],
        &["send", "--list"],
        &["pairing", "list"],
        &["gateway", "status"],
    ] {
        clean(home.command(arguments), 0);
    }
    // What is text of it is still shown.
    for arguments in [
        &["sessions", "show", CONVERSATION][..],
        &["gateway", "status"],
    ] {
        let shown = clean(home.command(arguments), 0);
        assert!(shown.contains("ABCDE"), "{arguments:?}: {shown:?}");
    }
    // The name of a session that there is none of is repeated.
    clean(home.command(&["sessions", "show", NASTY]), 3);
    clean(home.command(&["chat", "--resume", NASTY, "-q", "go on"]), 3);
}

#[test]
fn the_questions_of_a_manifest_do_not_steer_the_terminal() {
    let hermes = Hermes::new();
    let manifest = json!({
        "version": 1, "id": "notes", "title": "Notes", "description": "Keeps notes",
        "homepage": "https://example.com",
        "transport": {"command": "notes", "args": [], "env": {"NOTES_ROOT": "${NOTES_ROOT}"}},
        "prompts": [{"variable": "NOTES_ROOT", "question": NASTY, "default": "/srv"}],
    });
    // YAML takes no control characters.
    let manifest = manifest.to_string().replace('\u{9b}', "\\u009b");
    hermes.home.write("catalog/notes.yaml", &manifest);
    let install = ["mcp", "install", "notes", "--no-test"];
    let mut terminal = Terminal::start(hermes.command(&install));
    terminal
        .wait_for("ABCDE")
        .wait_for("[/srv]: ")
        .send("/notes\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert_clean("the question", &screen);
    assert_eq!(hermes.entry("notes")["env"]["NOTES_ROOT"], "/notes");
}

#[test]
fn a_pipe_gets_what_the_server_sent_as_it_is() {
    let hermes = Hermes::with_config(&json!({"mcp_servers": {"kit": kit()}}).to_string());
    let called = hermes
        .run(&["mcp", "call", "kit.echo", &format!("text={NASTY}")])
        .ok();
    assert_eq!(called.stdout, format!("{NASTY}\n"));
}
