//! `mcp-server-time` and `mcp-server-git` of the stateless era, `mcp-server-sqlite` of the legacy one.

use std::{path::Path, process::Command};

use hermes_mcp::Era;
use hermes_testkit::TemporaryHome;
use serde_json::{Value, json};

use super::{installed, own_tools};
use crate::setup::{Setup, with};

#[tokio::test]
async fn the_time_server_speaks_the_stateless_era_and_the_legacy_one_when_asked() {
    let Some(program) = installed("HERMES_TEST_VENV", "bin/mcp-server-time") else {
        return;
    };
    let entry = json!({ "command": program, "args": ["--local-timezone", "UTC"] });
    for (keys, era, version) in [
        (json!({}), Era::Stateless, "2026-07-28"),
        (
            json!({ "protocol": "stateless" }),
            Era::Stateless,
            "2026-07-28",
        ),
        (json!({ "protocol": "legacy" }), Era::Legacy, "2025-11-25"),
    ] {
        let entry = with(entry.clone(), keys);
        let setup = Setup::start(json!({ "t": entry })).await;
        setup.assert_ready("t");
        let status = setup.status("t");
        assert_eq!(status.era, Some(era));
        assert_eq!(status.protocol_version.as_deref(), Some(version));
        assert_eq!(own_tools(&setup), ["get_current_time", "convert_time"]);

        let arguments = json!({
            "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo",
        });
        let told = setup.call("mcp_t_convert_time", arguments).await;
        let converted: Value = serde_json::from_str(told["result"].as_str().unwrap()).unwrap();
        assert!(
            converted["target"]["datetime"]
                .as_str()
                .unwrap()
                .contains("T21:00:00"),
            "{told}"
        );
        assert_eq!(told.as_object().unwrap().len(), 1, "told once: {told}");
        let error = setup
            .error(
                "mcp_t_get_current_time",
                json!({ "timezone": "Mars/Olympus" }),
            )
            .await;
        assert!(error.contains("Mars/Olympus"), "{error}");
    }
}

fn git(directory: &Path, arguments: &[&str]) {
    let ended = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[tokio::test]
async fn the_git_server_shows_a_repository() {
    let Some(program) = installed("HERMES_TEST_VENV", "bin/mcp-server-git") else {
        return;
    };
    let home = TemporaryHome::new();
    let repository = home.path().join("repository");
    std::fs::create_dir(&repository).unwrap();
    git(&repository, &["init", "--quiet"]);
    std::fs::write(repository.join("poem.txt"), "roses\n").unwrap();
    git(&repository, &["add", "poem.txt"]);
    git(
        &repository,
        &["commit", "--quiet", "--message", "Add a poem"],
    );
    std::fs::write(repository.join("poem.txt"), "violets\n").unwrap();
    let place = repository.to_str().unwrap().to_owned();

    let entry = json!({ "command": program, "args": ["--repository", place] });
    let setup = Setup::in_home(home, json!({ "git": entry })).await;
    setup.assert_ready("git");
    assert_eq!(setup.status("git").era, Some(Era::Stateless));
    assert_eq!(own_tools(&setup).len(), 12);
    let show = async |tool: &str| {
        let told = setup
            .call(&format!("mcp_git_{tool}"), json!({ "repo_path": place }))
            .await;
        assert!(told["error"].is_null(), "{told}");
        told.to_string()
    };
    assert!(show("git_status").await.contains("poem.txt"));
    assert!(show("git_log").await.contains("Add a poem"));
    assert!(show("git_diff_unstaged").await.contains("violets"));
    let error = setup
        .error("mcp_git_git_status", json!({ "repo_path": "/nowhere" }))
        .await;
    assert!(!error.is_empty());
}

#[tokio::test]
async fn the_sqlite_server_refuses_the_probe_and_works_all_the_same() {
    let Some(program) = installed("HERMES_TEST_VENV_SQLITE", "bin/mcp-server-sqlite") else {
        return;
    };
    let home = TemporaryHome::new();
    let database = home.path().join("data.db");
    let entry = json!({ "command": program, "args": ["--db-path", database.to_str().unwrap()] });
    let setup = Setup::in_home(home, json!({ "db": entry })).await;
    setup.assert_ready("db");
    assert_eq!(setup.status("db").era, Some(Era::Legacy));
    let call = async |tool: &str, arguments: Value| {
        let told = setup.call(&format!("mcp_db_{tool}"), arguments).await;
        let text = told["result"].as_str();
        text.unwrap_or_else(|| panic!("{tool}: {told}")).to_owned()
    };
    let query = "CREATE TABLE poems (title TEXT)";
    call("create_table", json!({ "query": query })).await;
    let query = "INSERT INTO poems VALUES ('Grüße')";
    call("write_query", json!({ "query": query })).await;
    let rows = call("read_query", json!({ "query": "SELECT * FROM poems" })).await;
    assert!(rows.contains("Grüße"), "{rows}");
    assert!(call("list_tables", json!({})).await.contains("poems"));
    let schema = call("describe_table", json!({ "table_name": "poems" })).await;
    assert!(schema.contains("title"), "{schema}");
    call("append_insight", json!({ "insight": "poems sell" })).await;
    let memo = call("read_resource", json!({ "uri": "memo://insights" })).await;
    assert!(memo.contains("poems sell"), "{memo}");
    let arguments = json!({ "name": "mcp-demo", "arguments": { "topic": "poems" } });
    let told = setup.call("mcp_db_get_prompt", arguments).await;
    assert!(told["messages"][0]["content"].is_string(), "{told}");
    let listed = setup.call("mcp_db_list_prompts", json!({})).await;
    assert_eq!(listed["prompts"][0]["name"], "mcp-demo");
    let told = setup
        .call("mcp_db_read_query", json!({ "query": "DROP TABLE poems" }))
        .await;
    assert!(told.to_string().contains("SELECT"), "{told}");
}
