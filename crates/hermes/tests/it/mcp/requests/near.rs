//! Names that were mistyped: the one that was probably meant is named.

use std::fs;

use serde_json::json;

use crate::harness::program::{Hermes, entry, with_tools};

#[track_caller]
fn asks_for(hermes: &Hermes, arguments: &[&str], code: i32, meant: &str) {
    let ran = hermes.run(arguments).exits_with(code);
    let asked = format!("did you mean `{meant}`?");
    assert!(ran.stderr.contains(&asked), "{arguments:?}: {ran:?}");
}

#[test]
fn servers_tools_presets_and_entries_of_the_catalog() {
    let kit = entry(&with_tools(&["create_issue", "list_issues"]));
    let hermes = Hermes::with_config(&json!({"mcp_servers": {"github": kit}}).to_string());
    for arguments in [
        &["mcp", "test", "githb"][..],
        &["mcp", "status", "githb"],
        &["mcp", "get", "githb"],
        &["mcp", "call", "githb.list_issues"],
        &["mcp", "tools", "githb"],
        &["mcp", "resources", "githb"],
        &["mcp", "remove", "githb", "--yes"],
        &["mcp", "enable", "githb"],
    ] {
        asks_for(&hermes, arguments, 3, "github");
    }
    asks_for(
        &hermes,
        &["mcp", "call", "github.create_isue"],
        3,
        "create_issue",
    );
    asks_for(
        &hermes,
        &["mcp", "call", "github", "list_issue"],
        3,
        "list_issues",
    );
    asks_for(
        &hermes,
        &["mcp", "tools", "github.create_isue"],
        3,
        "create_issue",
    );
    asks_for(
        &hermes,
        &["mcp", "add", "c", "--preset", "codx"],
        3,
        "codex",
    );
    asks_for(&hermes, &["mcp", "install", "filesytem"], 3, "filesystem");
}

#[test]
fn sessions_jobs_and_skills() {
    let hermes = Hermes::new();
    let skill = hermes.home.path().join("skills/notes/tidy-notes");
    fs::create_dir_all(&skill).unwrap();
    fs::write(
        skill.join("SKILL.md"),
        "---\nname: tidy-notes\ndescription: Tidies notes.\n---\nDo it.\n",
    )
    .unwrap();
    asks_for(&hermes, &["skills", "view", "tidy-note"], 3, "tidy-notes");
    let job = [
        "cron",
        "create",
        "every 1h",
        "Look around",
        "--name",
        "patrol",
    ];
    hermes.run(&job).ok();
    asks_for(&hermes, &["cron", "pause", "patrl"], 3, "patrol");
    let job = ["cron", "create", "every 1h", "Tidy", "--skill", "tidy-note"];
    asks_for(&hermes, &job, 3, "tidy-notes");
}
