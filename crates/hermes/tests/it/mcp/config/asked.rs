//! The same commands with somebody at the terminal.

use std::time::Duration;

use hermes_testkit::{HttpServer, wait_until};
use serde_json::json;

use super::COMMENTED;
use crate::harness::{
    program::{Hermes, entry, local, with_tools},
    terminal::Terminal,
};

const DOWN: &str = "\x1b[B";
const CTRL_C: &str = "\x03";

fn add(hermes: &Hermes) -> Terminal {
    let (command, argument) = local(&with_tools(&["read", "write", "delete"]));
    Terminal::start(hermes.command(&[
        "mcp",
        "add",
        "kit",
        "--command",
        &command,
        "--args",
        &argument,
    ]))
}

#[test]
fn enter_offers_all_tools() {
    let hermes = Hermes::new();
    let mut terminal = add(&hermes);
    terminal
        .wait_for("Does delete")
        .wait_for("all of its 3 tools?")
        .wait_for("[Y/n]")
        .send("\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(hermes.entry("kit").get("tools"), None);
}

#[test]
fn tools_can_be_chosen_from_a_list() {
    let hermes = Hermes::new();
    let mut terminal = add(&hermes);
    terminal
        .wait_for("[Y/n]")
        .send("perhaps\n")
        .wait_for("Please answer")
        .wait_for("[Y/n]")
        .send("n\n");
    terminal.wait_for("> [x] read").wait_for("enter accepts");
    terminal
        .send(DOWN)
        .wait_for("> [x] write")
        .send(" ")
        .wait_for("> [ ] write")
        .send("\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("2 of 3"), "{screen}");
    assert_eq!(
        hermes.entry("kit")["tools"],
        json!({"include": ["read", "delete"]})
    );
}

#[test]
fn ctrl_c_at_a_question_changes_nothing() {
    let hermes = Hermes::new();
    let mut terminal = add(&hermes);
    // The probe has been before: the question must not have lost its way out.
    terminal.wait_for("[Y/n]").send(CTRL_C);
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    assert_eq!(hermes.config(), "");

    let mut terminal = add(&hermes);
    terminal
        .wait_for("[Y/n]")
        .send("n\n")
        .wait_for("> [x] read")
        .send(CTRL_C);
    assert_eq!(terminal.end().0, 130);
    assert_eq!(hermes.config(), "");
}

#[test]
fn a_typed_token_is_not_shown() {
    let token = "t0ken-typed-by-hand-9876";
    let server = HttpServer::start(
        with_tools(&["search"]).http(|http| http.bearer = Some(token.to_owned())),
    );
    let hermes = Hermes::new();
    let url = server.url();
    let mut terminal =
        Terminal::start(hermes.command(&["mcp", "add", "docs", "--url", &url, "--auth", "header"]));
    terminal
        .wait_for("Token")
        .send(&format!("{token}\n"))
        .wait_for("[Y/n]")
        .send("\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains(token), "{screen}");
    assert_eq!(hermes.env(), format!("MCP_DOCS_API_KEY={token}\n"));
}

#[test]
fn a_server_that_fails_is_saved_only_on_request() {
    let hermes = Hermes::new();
    let start =
        || Terminal::start(hermes.command(&["mcp", "add", "kit", "--command", "no-such-program"]));
    let mut terminal = start();
    terminal
        .wait_for("`no-such-program`")
        .wait_for("disabled? [y/N]")
        .send("\n");
    assert_eq!(terminal.end().0, 1);
    assert_eq!(hermes.config(), "");
    let mut terminal = start();
    terminal.wait_for("disabled? [y/N]").send("y\n");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(
        hermes.entry("kit"),
        json!({"command": "no-such-program", "enabled": false})
    );
}

#[test]
fn a_taken_name_is_asked_about() {
    let hermes = Hermes::with_config(COMMENTED);
    let line = ["mcp", "add", "files", "--no-test", "--command", "new"];
    let mut terminal = Terminal::start(hermes.command(&line));
    terminal.wait_for("Replace it? [y/N]").send("\n");
    assert_eq!(terminal.end().0, 1);
    assert_eq!(hermes.config(), COMMENTED);
    let mut terminal = Terminal::start(hermes.command(&line));
    terminal.wait_for("Replace it? [y/N]").send("yes\n");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(hermes.entry("files"), json!({"command": "new"}));
}

#[test]
fn removing_is_the_usual_answer() {
    let hermes = Hermes::with_config(COMMENTED);
    let start = || Terminal::start(hermes.command(&["mcp", "remove", "shop"]));
    let mut terminal = start();
    terminal.wait_for("[Y/n]").send("n\n");
    assert_eq!(terminal.end().0, 1);
    assert_eq!(hermes.config(), COMMENTED);
    let mut terminal = start();
    terminal.wait_for("[Y/n]").send("\n");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(hermes.entry("shop"), json!(null));
}

#[test]
fn the_checklist_begins_with_the_present_choice() {
    let mut kit = entry(&with_tools(&["read", "write", "delete"]));
    kit["tools"] = json!({"include": ["wr*"], "prompts": false});
    let hermes = Hermes::with_config(&json!({"mcp_servers": {"kit": kit}}).to_string());
    let mut terminal = Terminal::start(hermes.command(&["mcp", "configure", "kit"]));
    terminal
        .wait_for("> [ ] read")
        .wait_for("  [x] write")
        .wait_for("  [ ] delete");
    terminal.wait_for("esc leaves").send(" \r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    let tools = &hermes.entry("kit")["tools"];
    assert_eq!(
        tools,
        &json!({"include": ["read", "write"], "prompts": false})
    );
}

#[test]
fn servers_to_import_are_chosen() {
    let hermes = Hermes::new();
    let servers = json!({"mcpServers": {"a": {"command": "one"}, "b": {"command": "two"}}});
    let path = hermes.home.write("mcp.json", &servers.to_string());
    let line = ["mcp", "import", "cursor", "--file", path.to_str().unwrap()];
    let mut terminal = Terminal::start(hermes.command(&line));
    terminal
        .wait_for("> [x] a")
        .wait_for("esc leaves")
        .send(" \r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(hermes.entry("a"), json!(null));
    assert_eq!(hermes.entry("b"), json!({"command": "two"}));
}

#[test]
fn the_questions_of_a_manifest_are_asked() {
    let hermes = Hermes::new();
    let (command, argument) = local(&with_tools(&["read"]));
    let manifest = json!({
        "version": 1, "id": "notes", "title": "Notes", "description": "Keeps notes",
        "homepage": "https://example.com",
        "transport": {"command": command, "args": [argument], "env": {
            "NOTES_TOKEN": "${NOTES_TOKEN}", "NOTES_ROOT": "${NOTES_ROOT}",
        }},
        "prompts": [
            {"variable": "NOTES_TOKEN", "question": "Token?", "secret": true, "required": true},
            {"variable": "NOTES_ROOT", "question": "Where?", "default": "/srv"},
        ],
    });
    hermes
        .home
        .write("catalog/notes.yaml", &manifest.to_string());
    let start = || Terminal::start(hermes.command(&["mcp", "install", "notes", "--force"]));
    let mut terminal = start();
    // An empty answer is none where one is required.
    terminal
        .wait_for("Token?")
        .send("\n")
        .wait_for("Token?")
        .send("typed-secret-1234\n");
    terminal
        .wait_for("Where? [/srv]")
        .send("/notes\n")
        .wait_for("[Y/n]")
        .send("\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains("typed-secret-1234"), "{screen}");
    let expected = json!({"NOTES_ROOT": "/notes", "NOTES_TOKEN": "${NOTES_TOKEN}"});
    assert_eq!(hermes.entry("notes")["env"], expected);
    assert_eq!(hermes.env(), "NOTES_TOKEN=typed-secret-1234\n");

    // The second time the present secret is offered, masked.
    let mut terminal = start();
    terminal
        .wait_for("[empty keeps type***1234]")
        .send("\n")
        .wait_for("Where?")
        .send("\n");
    terminal.wait_for("[Y/n]").send("\n");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(hermes.env(), "NOTES_TOKEN=typed-secret-1234\n");
}

#[test]
fn an_interrupted_probe_saves_nothing_even_if_forced() {
    let hermes = Hermes::new();
    let pids = hermes.home.path().join("pids");
    let behaviour = with_tools(&["read"]).process(|process| {
        process.pid_file = Some(pids.clone());
        process.start_delay_ms = 60_000;
    });
    let (command, argument) = local(&behaviour);
    let line = [
        "mcp",
        "add",
        "kit",
        "--force",
        "--command",
        &command,
        "--args",
        &argument,
    ];
    let mut terminal = Terminal::start(hermes.command(&line));
    assert!(wait_until(Duration::from_secs(30), || pids.exists()));
    terminal.interrupt();
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    assert_eq!(hermes.config(), "");
}
