use std::{fs, path::Path, process::Command};

use hermes_testkit::Behaviour;
use serde_json::json;

use crate::harness::program::{Hermes, assert_private, local, run};

const SECRET: &str = "n0t-for-your-eyes-0123";

/// A home whose catalog has the entry `notes`: the test server with a secret, a choice and a default.
fn hermes() -> Hermes {
    let hermes = Hermes::new();
    let (command, argument) = local(&Behaviour::new());
    let manifest = json!({
        "version": 1, "id": "notes", "title": "Notes", "description": "Keeps notes",
        "homepage": "https://example.com",
        "transport": {"command": command, "args": [argument], "env": {
            "NOTES_TOKEN": "${NOTES_TOKEN}", "NOTES_ROOT": "${NOTES_ROOT}", "ZONE": "${ZONE}",
        }},
        "prompts": [
            {"variable": "NOTES_TOKEN", "question": "Token?", "secret": true, "required": true},
            {"variable": "NOTES_ROOT", "question": "Where?", "default": "/srv"},
            {"variable": "ZONE", "question": "Zone?"},
        ],
        "tools": {"include": ["echo", "environment"]},
    });
    hermes
        .home
        .write("catalog/notes.yaml", &manifest.to_string());
    hermes
}

#[test]
fn answers_become_an_entry_and_the_secret_reaches_the_server() {
    let hermes = hermes();
    let set = format!("NOTES_TOKEN={SECRET}");
    let ran = hermes
        .run(&["mcp", "install", "notes", "--set", &set, "--json"])
        .ok();
    let json = ran.hides(&[SECRET]).json();
    assert_eq!(
        (&json["server"], &json["saved"]),
        (&json!("notes"), &json!(true))
    );
    let entry = hermes.entry("notes");
    assert_eq!(
        entry["env"],
        json!({"NOTES_ROOT": "/srv", "NOTES_TOKEN": "${NOTES_TOKEN}"})
    );
    assert_eq!(entry["tools"], json!({"include": ["echo", "environment"]}));
    assert_eq!(hermes.env(), format!("NOTES_TOKEN={SECRET}\n"));
    assert_private(&hermes.home.path().join(".env"));
    let environment = hermes.run(&["mcp", "call", "notes.environment"]).ok();
    assert!(environment.stdout.contains(SECRET), "{environment:?}");
}

#[test]
fn a_question_without_an_answer_names_the_flag() {
    let hermes = hermes();
    for yes in [&[][..], &["--yes"]] {
        let ran = hermes.run(&[&["mcp", "install", "notes", "--json"], yes].concat());
        let json = ran.refused(5, "answer_needed").json();
        let hint = json["error"]["hints"][0].as_str().unwrap();
        assert!(hint.contains("--set NOTES_TOKEN=VALUE"), "{hint}");
    }
    assert_eq!(hermes.config(), "");
}

#[test]
fn a_secret_that_is_known_already_is_not_asked_for() {
    let hermes = hermes();
    hermes.home.write_env(&format!("NOTES_TOKEN={SECRET}\n"));
    hermes
        .run(&["mcp", "install", "notes", "--name", "mine"])
        .ok()
        .hides(&[SECRET]);
    assert_eq!(hermes.entry("mine")["env"]["NOTES_TOKEN"], "${NOTES_TOKEN}");
    assert_eq!(hermes.env(), format!("NOTES_TOKEN={SECRET}\n"));
}

#[test]
fn wrong_ids_answers_and_names_are_told_apart() {
    let hermes = hermes();
    hermes
        .run(&["mcp", "install", "nope", "--json"])
        .refused(3, "not_found");
    for set in ["NOTES_TOKN=x", "NOTES_TOKEN"] {
        hermes
            .run(&["mcp", "install", "notes", "--set", set, "--json"])
            .refused(2, "usage");
    }
    hermes
        .home
        .write_config("mcp_servers:\n  notes: {command: mine}\n");
    let line = [
        "mcp",
        "install",
        "notes",
        "--set",
        "NOTES_TOKEN=x",
        "--json",
    ];
    hermes.run(&line).refused(5, "answer_needed");
    assert_eq!(hermes.entry("notes"), json!({"command": "mine"}));
}

#[test]
fn a_server_that_fails_is_not_saved() {
    let hermes = hermes();
    let manifest = hermes
        .read("catalog/notes.yaml")
        .replace("testkit-stdio", "gone");
    hermes.home.write("catalog/notes.yaml", &manifest);
    let line = [
        "mcp",
        "install",
        "notes",
        "--set",
        "NOTES_TOKEN=x",
        "--json",
    ];
    hermes.run(&line).refused(1, "failed");
    assert_eq!(hermes.config() + &hermes.env(), "");
}

/// A repository that is reached by an https address without leaving the machine.
fn repository(hermes: &Hermes, commands: &serde_json::Value) {
    let directory = hermes.user().join("origin/tool.git");
    fs::create_dir_all(&directory).unwrap();
    let git = |args: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args(args)
            .current_dir(&directory)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let (command, argument) = local(&Behaviour::new());
    let script = format!("#!/bin/sh\nexec '{command}' '{argument}'\n");
    fs::write(directory.join("server.sh"), script).unwrap();
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "server"]);
    git(&["tag", "v1"]);
    let manifest = json!({
        "version": 1, "id": "tool", "title": "Tool", "description": "A tool",
        "homepage": "https://example.com",
        "transport": {"command": "${INSTALL_DIR}/run"},
        "install": {
            "repository": "https://git.example.com/tool.git", "reference": "v1",
            "commands": commands,
        },
    });
    hermes
        .home
        .write("catalog/tool.yaml", &manifest.to_string());
    let origin = hermes.user().join("origin").display().to_string();
    let config = format!("[url \"{origin}/\"]\n\tinsteadOf = https://git.example.com/\n");
    fs::write(hermes.user().join(".gitconfig"), config).unwrap();
}

fn installed(hermes: &Hermes) -> bool {
    Path::new(&hermes.home.path().join("mcp-servers/tool")).exists()
}

#[test]
fn a_repository_is_fetched_and_built() {
    let hermes = Hermes::new();
    let steps = json!([
        ["cp", "server.sh", "run"],
        ["chmod", "+x", "${INSTALL_DIR}/run"]
    ]);
    repository(&hermes, &steps);
    let ran = hermes.run(&["mcp", "install", "tool"]).ok();
    assert!(ran.stderr.contains("[4/4] chmod +x"), "{ran:?}");
    let directory = hermes.home.path().join("mcp-servers/tool");
    let command = directory.join("run").display().to_string();
    assert_eq!(hermes.entry("tool"), json!({"command": command}));

    // Once more: what is there stays, unless forced.
    hermes.run(&["mcp", "remove", "tool", "--yes"]).ok();
    hermes
        .run(&["mcp", "install", "tool", "--json"])
        .refused(5, "answer_needed");
    assert!(installed(&hermes));
    hermes.run(&["mcp", "install", "tool", "--force"]).ok();
}

#[test]
fn a_step_that_fails_leaves_nothing_behind() {
    let hermes = Hermes::new();
    let say = "echo password=hunter2hunter2 it broke; exit 7";
    repository(&hermes, &json!([["sh", "-c", say]]));
    let ran = hermes
        .run(&["mcp", "install", "tool", "--json"])
        .refused(1, "failed");
    let ran = ran.hides(&["hunter2hunter2"]);
    let json = ran.json();
    assert!(
        json["error"]["message"]
            .as_str()
            .unwrap()
            .contains("it broke"),
        "{json}"
    );
    assert!(!installed(&hermes));
    assert_eq!(hermes.config(), "");
}

#[test]
fn a_build_that_cannot_be_connected_goes_again() {
    let hermes = Hermes::new();
    repository(
        &hermes,
        &json!([[
            "sh",
            "-c",
            "printf '#!/bin/sh\\nexit 1' > run; chmod +x run"
        ]]),
    );
    run(hermes.command(&["mcp", "install", "tool"]), "").exits_with(1);
    assert!(!installed(&hermes));
    assert_eq!(hermes.config(), "");
}
