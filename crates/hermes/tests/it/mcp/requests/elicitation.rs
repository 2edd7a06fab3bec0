//! Servers that ask the person at the terminal while `mcp call` runs.

use std::{fs, os::unix::fs::PermissionsExt};

use hermes_testkit::{
    Behaviour, Era,
    model::{ModelScript, ModelServer},
};
use serde_json::{Value, json};

use crate::harness::{
    program::{Hermes, entry},
    terminal::Terminal,
    test_home::wait_until,
};

const CTRL_C: &str = "\x03";

fn hermes(era: Era, keys: &Value) -> Hermes {
    let mut kit = entry(&Behaviour::new().era(era));
    for (key, value) in keys.as_object().unwrap() {
        kit[key] = value.clone();
    }
    Hermes::with_config(&json!({"mcp_servers": {"kit": kit}}).to_string())
}

/// Calls a tool of the server that asks with these parameters.
fn call(hermes: &Hermes, tool: &str, params: &Value) -> Terminal {
    let arguments = json!({"params": params}).to_string();
    Terminal::start(hermes.command(&["mcp", "call", &format!("kit.{tool}"), &arguments]))
}

fn form(fields: &Value, required: &[&str]) -> Value {
    json!({
        "mode": "form",
        "message": "Tell me \u{1b}[2Jabout yourself.",
        "requestedSchema": {"type": "object", "properties": fields, "required": required},
    })
}

/// What the server was told: the last line that is JSON.
#[track_caller]
fn json_result(terminal: &mut Terminal) -> Value {
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    // The line may begin with what takes the progress away.
    let json = |line: &str| serde_json::from_str::<Value>(&line[line.find('{')?..]).ok();
    let found = screen.lines().rev().find_map(json);
    found.unwrap_or_else(|| panic!("no answer in:\n{screen}"))
}

#[test]
fn every_kind_of_field_is_asked_for_checked_and_sent() {
    for era in [Era::Legacy, Era::Stateless] {
        let hermes = hermes(era, &json!({}));
        let fields = json!({
            "name": {"type": "string", "title": "Name", "description": "As in your passport", "minLength": 2},
            "mail": {"type": "string", "format": "email", "default": "ada@example.com"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "ratio": {"type": "number"},
            "sure": {"type": "boolean", "default": true},
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
            "days": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["mon", "tue", "wed"]}},
            "note": {"type": "string"},
        });
        let mut terminal = call(&hermes, "elicit", &form(&fields, &["name", "age", "days"]));
        terminal
            .wait_for("The MCP server `kit` asks:")
            .wait_for("Tell me about yourself.");
        terminal
            .wait_for("As in your passport")
            .wait_for("Name: ")
            .send("A\n");
        terminal
            .wait_for("Name must have at least 2 characters.")
            .wait_for("Name: ")
            .send("Ada\n");
        terminal
            .wait_for("mail (an e-mail address, like ada@example.com) [ada@example.com]: ")
            .send("\n");
        terminal
            .wait_for("age (a whole number from 0 to 150): ")
            .send("old\n");
        terminal
            .wait_for("age must be a whole number.")
            .send("200\n");
        terminal.wait_for("age must be at most 150.").send("36\n");
        terminal
            .wait_for("ratio (a number, may be left empty): ")
            .send("0.5\n");
        terminal.wait_for("sure (yes or no) [yes]: ").send("no\n");
        terminal
            .wait_for("  1 Small")
            .wait_for("  2 Large")
            .wait_for("Number or name")
            .send("2\n");
        // Nothing marked is too little; the list comes again.
        terminal
            .wait_for("> [ ] mon")
            .wait_for("esc leaves")
            .send("\r");
        terminal
            .wait_for("days must be filled in.")
            .wait_for("[y/N]")
            .send("\n");
        terminal
            .wait_for("> [ ] mon")
            .wait_for("esc leaves")
            .send(" j ")
            .wait_for("> [x] tue")
            .send("\r");
        terminal.wait_for("note (may be left empty): ").send("\n");
        terminal.wait_for("Send this to `kit`?").send("y\n");
        let expected = json!({"action": "accept", "content": {
            "name": "Ada", "mail": "ada@example.com", "age": 36, "ratio": 0.5, "sure": false, "size": "l",
            "days": ["mon", "tue"],
        }});
        assert_eq!(json_result(&mut terminal), expected, "{era:?}");
    }
}

#[test]
fn answers_can_be_edited_before_they_go_out() {
    let hermes = hermes(Era::Legacy, &json!({}));
    let fields = json!({"name": {"type": "string"}, "age": {"type": "integer"}});
    let mut terminal = call(&hermes, "elicit", &form(&fields, &["name"]));
    terminal
        .wait_for("name: ")
        .send("Adam\n")
        .wait_for("age")
        .send("36\n");
    terminal.wait_for("[e]dit").send("e\n");
    terminal
        .wait_for("name [Adam]: ")
        .send("Ada\n")
        .wait_for("[36]: ")
        .send("\n");
    terminal.wait_for("[e]dit").send("y\n");
    assert_eq!(
        json_result(&mut terminal)["content"],
        json!({"name": "Ada", "age": 36})
    );
}

#[test]
fn a_person_can_refuse_and_can_leave() {
    let hermes = hermes(Era::Legacy, &json!({}));
    let fields = || form(&json!({"name": {"type": "string"}}), &["name"]);
    let mut terminal = call(&hermes, "elicit", &fields());
    terminal
        .wait_for("name: ")
        .send("\n")
        .wait_for("Refuse to answer? [y/N]")
        .send("y\n");
    assert_eq!(json_result(&mut terminal), json!({"action": "decline"}));
    let mut terminal = call(&hermes, "elicit", &fields());
    terminal
        .wait_for("name: ")
        .send("Ada\n")
        .wait_for("Send this")
        .send("n\n");
    assert_eq!(json_result(&mut terminal), json!({"action": "decline"}));
    let mut terminal = call(&hermes, "elicit", &fields());
    terminal.wait_for("name: ").send(CTRL_C);
    assert_eq!(json_result(&mut terminal), json!({"action": "cancel"}));
}

#[test]
fn a_password_is_warned_of_and_not_shown() {
    let hermes = hermes(Era::Legacy, &json!({}));
    let fields = json!({"password": {"type": "string"}});
    let mut terminal = call(&hermes, "elicit", &form(&fields, &["password"]));
    terminal
        .wait_for("warning: it wants a password")
        .wait_for("password: ")
        .send("hunter22\n");
    terminal.wait_for("Send this").send("n\n");
    let (_, screen) = terminal.end();
    assert!(!screen.contains("hunter22"), "{screen}");
}

#[test]
fn a_question_that_waits_too_long_goes_away() {
    let hermes = hermes(Era::Stateless, &json!({"elicitation": {"timeout": 3}}));
    let mut terminal = call(
        &hermes,
        "elicit",
        &form(&json!({"name": {"type": "string"}}), &[]),
    );
    terminal.wait_for("name (may be left empty): ");
    assert_eq!(json_result(&mut terminal), json!({"action": "cancel"}));
}

/// A home with a program in the place of the browser's, which writes down what it was given.
fn with_browser() -> (Hermes, std::path::PathBuf) {
    let hermes = hermes(Era::Legacy, &json!({}));
    let opened = hermes.user().join("opened");
    for name in ["xdg-open", "open"] {
        let script = format!("#!/bin/sh\nprintf '%s' \"$1\" > '{}'\n", opened.display());
        let path = hermes.home.write(&format!("user/bin/{name}"), &script);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    (hermes, opened)
}

fn call_with_link(hermes: &Hermes, variables: &[(&str, &str)]) -> Terminal {
    let mut command = hermes.command(&["mcp", "call", "kit.elicit_url"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env(
        "PATH",
        format!("{}:{path}", hermes.user().join("bin").display()),
    );
    command.envs(variables.iter().copied());
    let mut terminal = Terminal::start(command);
    terminal
        .wait_for("`kit` wants you to visit a page:")
        .wait_for("Please log in.")
        .wait_for("https://login.example.com/start")
        .wait_for("It leads to login.example.com.")
        .wait_for("[y/N]");
    terminal
}

#[test]
fn a_page_is_opened_only_with_consent() {
    let (hermes, opened) = with_browser();
    let screen = [("DISPLAY", ":0")];
    let mut terminal = call_with_link(&hermes, &screen);
    terminal.send("\n");
    assert_eq!(json_result(&mut terminal), json!({"action": "decline"}));
    assert!(!opened.exists());
    let mut terminal = call_with_link(&hermes, &screen);
    terminal.send(CTRL_C);
    assert_eq!(json_result(&mut terminal), json!({"action": "cancel"}));
    assert!(!opened.exists());
    let mut terminal = call_with_link(&hermes, &screen);
    terminal.send("y\n");
    assert_eq!(json_result(&mut terminal), json!({"action": "accept"}));
    // What opens it is not waited for.
    let address = || fs::read_to_string(&opened).unwrap_or_default();
    wait_until("the page is opened", || {
        address() == "https://login.example.com/start"
    });
}

#[test]
fn over_ssh_no_browser_is_started() {
    let (hermes, opened) = with_browser();
    let mut terminal = call_with_link(&hermes, &[("DISPLAY", ":0"), ("SSH_CONNECTION", "a b c d")]);
    terminal
        .send("y\n")
        .wait_for("open the address above yourself");
    assert_eq!(json_result(&mut terminal), json!({"action": "accept"}));
    assert!(!opened.exists());
}

#[test]
fn at_a_terminal_the_home_s_model_and_its_directory_are_there_for_servers() {
    let model = ModelServer::start(ModelScript::echo());
    let kit = entry(&Behaviour::new());
    let config = json!({
        "model": {"default": "m", "base_url": model.base_url()},
        "mcp_servers": {"kit": kit},
    });
    let hermes = Hermes::with_config(&config.to_string());
    let mut terminal =
        Terminal::start(hermes.command(&["mcp", "call", "kit.sample", "--arg", "prompt=Hi"]));
    assert_eq!(json_result(&mut terminal)["content"]["text"], "Hi");
    let mut terminal = Terminal::start(hermes.command(&["mcp", "call", "kit.roots"]));
    let uri = json_result(&mut terminal)["roots"][0]["uri"].clone();
    assert!(uri.as_str().unwrap().ends_with("/user"), "{uri}");
}

#[test]
fn without_a_terminal_nothing_is_offered() {
    let hermes = hermes(Era::Legacy, &json!({}));
    let ran = hermes.run(&["mcp", "call", "kit.protocol"]).ok();
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(said["capabilities"], json!({}));
}
