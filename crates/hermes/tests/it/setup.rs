//! First use: a question without a flag, `config`, `doctor`, `status`, `setup`, `version`.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use hermes_testkit::model::{ModelScript, ModelServer, ScriptedAnswer};
use serde_json::{Value, json};

use crate::harness::{
    program::{Hermes, assert_private, local, run, with_tools},
    terminal::Terminal,
};

/// A home whose model is scripted.
fn with_model(answers: &[&str]) -> (Hermes, ModelServer) {
    let answers: Vec<ScriptedAnswer> = answers
        .iter()
        .map(|text| ScriptedAnswer::text(text))
        .collect();
    let model = ModelServer::start(ModelScript::new(answers));
    let config = json!({"model": {
        "default": "scripted",
        "base_url": model.base_url(),
        "api_key": "key-main-0123456789",
    }});
    (Hermes::with_config(&config.to_string()), model)
}

/// A script that can be run.
fn write_program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_question_in_quotes_is_asked() {
    let (hermes, model) = with_model(&["Noon.", "Rain."]);
    let ran = hermes.run(&["what time is it in Bern", "-Q"]).ok();
    assert_eq!(ran.stdout, "Noon.\n");
    let ran = hermes.run(&["--json", "weather?"]).ok();
    assert_eq!(ran.json()["output"], "Rain.");
    let asked = model.requests()[0].body.to_string();
    assert!(asked.contains("what time is it in Bern"), "{asked}");
}

#[test]
fn a_session_that_was_mistyped_is_named_when_it_is_to_go_on() {
    let (hermes, model) = with_model(&["Noon."]);
    let asked = hermes.run(&["-q", "what time is it?", "--json"]).ok();
    let id = asked.json()["session_id"].as_str().unwrap().to_owned();
    hermes.run(&["sessions", "rename", &id, "Weekly plan"]).ok();
    for words in [
        &["chat", "--resume", "Weekly pln", "-q", "and now?"][..],
        &["chat", "--resume", "Weekly pln"],
        &["--continue=Weekly pln", "-q", "and now?"],
        &["sessions", "show", "Weekly pln"],
    ] {
        let ran = hermes.run(words).exits_with(3);
        let meant = "did you mean `Weekly plan`?";
        assert!(ran.stderr.contains(meant), "{words:?}: {ran:?}");
    }
    let ran = hermes.run(&["chat", "--resume", "nope"]).exits_with(3);
    assert!(ran.stderr.contains("no session `nope`"), "{ran:?}");
    assert!(!ran.stderr.contains("did you mean"), "{ran:?}");
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn a_word_that_is_not_a_command_names_the_nearest() {
    let hermes = Hermes::new();
    for (words, says) in [
        (&["chta"][..], "did you mean `hermes chat`?"),
        (&["kanban"], "not in this program yet"),
        (&["kanban"], "nearest: `hermes tenant`"),
        (&["what", "is", "this"], "hermes \"what is this\""),
    ] {
        let ran = hermes.run(words).exits_with(2);
        assert!(ran.stderr.contains(says), "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
    let ran = hermes.run(&["webhook", "list", "--json"]);
    let ran = ran.refused(2, "usage");
    let hint = ran.json()["error"]["hints"][0].to_string();
    assert!(hint.contains("nearest"), "{hint}");
    assert!(!hermes.home.path().join("config.yaml").exists());
}

#[test]
fn values_are_written_and_everything_else_stays() {
    let text =
        "# Mine.\nagent:\n  max_turns: 50   # enough\n\nmcp_servers:\n  time: {command: uvx}\n";
    let hermes = Hermes::with_config(text);
    let get = |key: &str| hermes.run(&["config", "get", key, "--json"]).ok().json();
    assert_eq!(get("agent.max_turns")["value"], 50);
    hermes.run(&["config", "set", "agent.max_turns", "40"]).ok();
    hermes
        .run(&[
            "config",
            "set",
            "mcp_servers.time.args",
            "[mcp-server-time]",
        ])
        .ok();
    hermes.run(&["config", "set", "model", "gpt-5"]).ok();
    let config = hermes.config();
    assert!(
        config.starts_with("# Mine.\nagent:\n  max_turns: 40   # enough\n"),
        "{config}"
    );
    assert_eq!(
        get("mcp_servers.time")["value"],
        json!({"command": "uvx", "args": ["mcp-server-time"]})
    );
    assert_eq!(
        hermes.run(&["config", "get", "model"]).ok().stdout,
        "gpt-5\n"
    );
    hermes.run(&["config", "unset", "model"]).ok();
    let ran = hermes.run(&["config", "get", "model", "--json"]);
    ran.refused(3, "not_found");
    let ran = hermes
        .run(&["config", "get", "agent.max_turn"])
        .exits_with(3);
    assert!(
        ran.stderr.contains("did you mean `agent.max_turns`?"),
        "{ran:?}"
    );
    // A key that is not known is written, and said.
    let ran = hermes
        .run(&["config", "set", "bridge.platfroms", "all"])
        .ok();
    assert!(ran.stderr.contains("platfroms"), "{ran:?}");
    let path = hermes.run(&["config", "path"]).ok().stdout;
    assert_eq!(
        path.trim_end(),
        hermes.home.path().join("config.yaml").to_str().unwrap()
    );
    assert!(
        hermes
            .run(&["config", "env-path"])
            .ok()
            .stdout
            .ends_with("/.env\n")
    );
}

#[test]
fn a_change_that_would_break_the_file_is_not_made() {
    let hermes = Hermes::with_config("model: a\n");
    hermes
        .run(&["config", "set", "model.x.y", "1"])
        .exits_with(2);
    assert_eq!(hermes.config(), "model: a\n");
    let ran = hermes.run(&["config", "set", "a..b", "1"]).exits_with(2);
    assert!(ran.stderr.contains("is not a key"), "{ran:?}");
    hermes.home.write_config("mcp_servers: [\n");
    for words in [
        &["config", "set", "model", "b"][..],
        &["config", "check"],
        &["config"],
    ] {
        hermes.run(words).exits_with(2);
    }
    assert_eq!(hermes.config(), "mcp_servers: [\n");
}

#[test]
fn secrets_are_kept_in_env_and_never_shown() {
    let key = "sk-proj-0123456789abcdef";
    let hermes = Hermes::with_config("model: {default: a, api_key: sk-literal-0123456789}\n");
    let ran = hermes.run_with_input(&["config", "set", "OPENAI_API_KEY", "-"], key);
    ran.ok().hides(&[key]);
    assert_eq!(hermes.env(), format!("OPENAI_API_KEY={key}\n"));
    assert_private(&hermes.home.path().join(".env"));
    for words in [
        &["config"][..],
        &["config", "show", "--json"],
        &["config", "get", "OPENAI_API_KEY"],
        &["config", "get", "model"],
        &["config", "get", "model.api_key", "--json"],
    ] {
        let ran = hermes.run(words).ok();
        assert!(ran.stdout.contains("***"), "{ran:?}");
        ran.hides(&[key, "sk-literal-0123456789"]);
    }
    hermes.run(&["config", "unset", "OPENAI_API_KEY"]).ok();
    assert_eq!(hermes.env(), "");
}

#[test]
fn an_editor_opens_the_file_and_what_it_leaves_is_looked_at() {
    let hermes = Hermes::new();
    let ran = hermes.run(&["config", "edit"]).exits_with(5);
    assert!(ran.stderr.contains("$EDITOR"), "{ran:?}");
    let edit = |script: &str| {
        let editor = hermes.user().join("editor");
        write_program(&editor, script);
        let mut command = hermes.command(&["config", "edit"]);
        command.env("EDITOR", format!("{} --wait", editor.display()));
        run(command, "")
    };
    edit(r#"[ "$1" = --wait ] && echo "agent: {max_turns: 7}" > "$2""#).ok();
    assert_eq!(hermes.config(), "agent: {max_turns: 7}\n");
    let ran = edit(r#"echo "agent: {max_turn: 7}" > "$2""#).ok();
    assert!(ran.stderr.contains("max_turn"), "{ran:?}");
    let ran = edit(r#"echo "agent: [" > "$2""#).exits_with(2);
    assert!(ran.stderr.contains("edit it again"), "{ran:?}");
    edit("exit 3").exits_with(1);
}

fn checks(hermes: &Hermes, code: i32) -> Value {
    let ran = hermes.run(&["doctor", "--json"]).exits_with(code);
    let json = ran.json();
    assert_eq!(json["ok"], code == 0, "{json}");
    let checks = json["checks"].as_array().unwrap().iter();
    let by_id = checks.map(|check| (check["id"].as_str().unwrap().to_owned(), check.clone()));
    Value::Object(by_id.collect())
}

#[test]
fn the_doctor_says_of_every_part_how_it_is_and_what_to_do() {
    let hermes = Hermes::with_config("model: {autodetect: false}\n");
    let report = checks(&hermes, 1);
    let parts: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(
        parts,
        [
            "config",
            "secrets",
            "model",
            "servers",
            "commands",
            "platforms",
            "store",
            "gateway",
            "hub"
        ]
    );
    assert_eq!(report["model"]["level"], "fail");
    assert!(
        report["model"]["fix"]
            .as_str()
            .unwrap()
            .contains("`hermes model`")
    );
    assert_eq!(report["servers"]["level"], "warn");
    assert_eq!(report["store"]["level"], "ok");
    let ran = hermes.run(&["doctor"]).exits_with(1);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("ok   config      /"), "{ran:?}");
    assert!(ran.stdout.contains("fail model"), "{ran:?}");
    assert!(
        ran.stdout.contains("`hermes model` asks for a provider"),
        "{ran:?}"
    );

    let (hermes, _model) = with_model(&["Hello."]);
    hermes.run(&["-q", "hello", "-Q"]).ok();
    let report = checks(&hermes, 0);
    assert!(
        report["model"]["message"]
            .as_str()
            .unwrap()
            .contains("`scripted`")
    );
    assert!(
        report["store"]["message"]
            .as_str()
            .unwrap()
            .starts_with("1 session ")
    );
    hermes.home.write_config("mcp_servers: [\n");
    let report = checks(&hermes, 1);
    assert_eq!(report["config"]["level"], "fail");
    assert!(
        report["config"]["fix"]
            .as_str()
            .unwrap()
            .contains("hermes config edit")
    );
    // The other parts are looked at all the same.
    assert_eq!(report["store"]["level"], "ok");
    assert_eq!(report.get("model"), None);
}

#[test]
fn the_doctor_says_what_confines_commands() {
    let (hermes, _model) = with_model(&[]);
    let report = checks(&hermes, 0)["commands"].clone();
    assert_eq!(report["level"], "ok");
    assert!(report["message"].as_str().unwrap().starts_with("off: "));
    let support = hermes_mcp::process::sandbox::SandboxSupport::detect();
    let has_sandbox = support.landlock.is_some() && support.seccomp;
    let fix = report["fix"].as_str().unwrap_or_default();
    assert_eq!(fix.contains("terminal.sandbox workspace"), has_sandbox);

    hermes
        .run(&["config", "set", "terminal.sandbox", "strict"])
        .ok();
    let report = checks(&hermes, i32::from(!has_sandbox))["commands"].clone();
    let message = report["message"].as_str().unwrap();
    assert!(message.starts_with("strict: "), "{message}");
    assert_eq!(report["level"], if has_sandbox { "ok" } else { "fail" });
    assert_eq!(report["fix"].is_null(), has_sandbox);
    let ran = hermes.run(&["status"]).ok();
    assert!(ran.stdout.contains("commands    strict: "), "{ran:?}");
}

#[test]
fn the_doctor_finds_what_is_damaged_or_open_to_others() {
    let (hermes, _model) = with_model(&[]);
    hermes.home.write_env("A=b\n");
    let env = hermes.home.path().join(".env");
    fs::set_permissions(&env, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(
        hermes.home.path().join("state.db"),
        "no database, but long enough to be looked at",
    )
    .unwrap();
    let report = checks(&hermes, 1);
    assert_eq!(report["secrets"]["level"], "warn");
    assert!(
        report["secrets"]["fix"]
            .as_str()
            .unwrap()
            .starts_with("chmod 600 ")
    );
    assert_eq!(report["store"]["level"], "fail");
    let config = hermes.config().replacen(
        '{',
        r#"{"mcp_servers": {"gone": {"command": "not-installed"}},"#,
        1,
    );
    hermes.home.write_config(&config);
    let report = checks(&hermes, 1);
    assert_eq!(report["servers"]["level"], "fail");
    let message = report["servers"]["message"].as_str().unwrap();
    assert!(
        message.contains("`gone`") && message.contains("not-installed"),
        "{message}"
    );
}

#[test]
fn the_status_of_every_part_is_shown_and_is_not_a_failure() {
    let hermes = Hermes::with_config("model: {autodetect: false}\n");
    let ran = hermes.run(&["status"]).ok();
    assert!(
        ran.stdout
            .starts_with(concat!("hermes ", env!("CARGO_PKG_VERSION"), ", home "))
    );
    assert!(ran.stdout.contains("! model"), "{ran:?}");
    assert!(ran.stdout.contains("`hermes doctor`"), "{ran:?}");
    let json = hermes.run(&["status", "--json"]).ok().json();
    assert_eq!(json["parts"]["model"]["ok"], false);
    assert_eq!(json["parts"]["store"]["state"], "no conversation yet");
    let ran = hermes.run(&["version"]).ok();
    assert!(
        ran.stdout
            .starts_with(concat!("hermes ", env!("CARGO_PKG_VERSION"), "\n"))
    );
    let json = hermes.run(&["version", "--json"]).ok().json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["protocols"][0], "2026-07-28");
}

#[test]
fn setup_without_a_terminal_says_what_is_needed() {
    let hermes = Hermes::new();
    hermes.home.write_env("OLLAMA_HOST=127.0.0.1:1\n");
    for words in [
        &["setup", "--yes"][..],
        &["setup"],
        &["setup", "--non-interactive"],
    ] {
        let ran = hermes.run(words);
        // A model that runs on this machine would do.
        if ran.code == 0 {
            return;
        }
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stdout.contains("needed: "), "{ran:?}");
        assert!(
            ran.stdout.contains("hermes model NAME --provider PROVIDER"),
            "{ran:?}"
        );
        assert!(ran.stdout.contains("hermes mcp add NAME"), "{ran:?}");
    }
    assert!(
        hermes
            .config()
            .starts_with("# The configuration of hermes.")
    );
    let json = hermes.run(&["setup", "--json"]).exits_with(1).json();
    assert_eq!(json["missing"][0]["part"], "model");
    assert_eq!(json["missing"][0]["required"], true);

    let (hermes, _model) = with_model(&[]);
    let json = hermes.run(&["setup", "--json"]).ok().json();
    assert_eq!(json["model"], "scripted");
    let parts = json["missing"].as_array().unwrap().iter();
    let parts: Vec<&Value> = parts.map(|missing| &missing["part"]).collect();
    assert_eq!(parts, ["server", "platforms"]);
    let before = hermes.config();
    assert!(
        hermes
            .run(&["setup", "platforms", "-y"])
            .ok()
            .stdout
            .contains("hermes gateway setup")
    );
    assert_eq!(hermes.config(), before);
}

#[test]
fn setup_at_a_terminal_asks_for_each_part() {
    let (hermes, _model) = with_model(&[]);
    let (program, argument) = local(&with_tools(&["read"]));
    let server = hermes.user().join("notes-mcp");
    write_program(&server, &format!("exec '{program}' '{argument}'"));
    let mut terminal = Terminal::start(hermes.command(&["setup"]));
    terminal
        .wait_for("The model is `scripted`")
        .wait_for("[y/N]")
        .send("\n")
        .wait_for("MCP server (empty: later)")
        .send(&format!("{}\n", server.display()))
        .wait_for("Its name [notes]")
        .send("mine\n")
        .wait_for("[Y/n]")
        .send("\n")
        .wait_for("Saved `mine`")
        .wait_for("Telegram, Discord or Slack? [y/N]")
        .send("y\n")
        .wait_for("Telegram bot")
        .send("123456:abcdefghijklmnop\n")
        .wait_for("is kept in `.env`")
        .wait_for("Discord bot")
        .send("\n")
        .wait_for("Slack bot")
        .send("\n")
        .wait_for("Next: `hermes` talks to the agent");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(hermes.env(), "TELEGRAM_BOT_TOKEN=123456:abcdefghijklmnop\n");
    assert_eq!(hermes.entry("mine")["command"], server.to_str().unwrap());
}
