//! A changed configuration touches the servers it changes, and no other.

use std::sync::Arc;

use hermes_config::{Settings, Variables};
use hermes_mcp::LinkStatus;
use hermes_testkit::{Behaviour, ExitAtStart, HttpServer, TemporaryHome, process_exists, recorded};
use serde_json::{Value, json};

use crate::test_host::{BehaviourFile, TestHost, config, stdio, stdio_from, with};

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn only_what_changed_is_touched() {
    let entry = |name: &str| {
        let mut behaviour = Behaviour::new();
        name.clone_into(&mut behaviour.name);
        stdio(&behaviour)
    };
    let host = TestHost::start(&[
        ("kept", entry("kept")),
        ("changed", entry("before")),
        ("removed", entry("removed")),
        ("switched_off", entry("switched_off")),
    ])
    .await;
    for name in ["kept", "changed", "removed", "switched_off"] {
        host.ready(name).await;
    }
    let kept = host.ready("kept").await;
    let gone = ["changed", "removed", "switched_off"].map(|name| host.pid(name));

    let servers = [
        ("added", entry("added")),
        ("changed", entry("after")),
        ("kept", entry("kept")),
        (
            "switched_off",
            with(entry("switched_off"), "enabled", false),
        ),
    ];
    let settings = Settings::parse(&config(&servers), Variables::default()).unwrap();
    let plan = host.host.plan_reload(&settings).await;
    assert!(gone.into_iter().all(process_exists));
    let report = host.reload(&servers).await;
    assert_eq!(plan, report);
    assert_eq!(report.added, named(&["added"]));
    assert_eq!(report.removed, named(&["removed", "switched_off"]));
    assert_eq!(report.restarted, named(&["changed"]));
    assert_eq!(report.unchanged, named(&["kept"]));
    assert_eq!(report.retried, named(&[]));
    assert!(!report.is_noop());

    for pid in gone {
        assert!(!process_exists(pid));
    }
    host.ready("added").await;
    host.ready("changed").await;
    assert!(Arc::ptr_eq(&kept, &host.ready("kept").await));
    assert_eq!(host.text("kept", "counter", json!({})).await, "1");
    let info = host.status("changed").server_info.unwrap();
    assert_eq!(info.name, "after");
    let order: Vec<String> = host.host.status().into_iter().map(|s| s.name).collect();
    assert_eq!(order, ["added", "changed", "kept", "switched_off"]);
    assert_eq!(host.status("switched_off").status, LinkStatus::Disabled);
    assert!(host.tools("removed").is_empty());
}

#[tokio::test]
async fn nothing_changed_means_nothing_done() {
    let servers = [("server", stdio(&Behaviour::new()))];
    let host = TestHost::start(&servers).await;
    let session = host.ready("server").await;
    let report = host.reload(&servers).await;
    assert!(report.is_noop());
    assert_eq!(report.unchanged, named(&["server"]));
    assert!(Arc::ptr_eq(&session, &host.ready("server").await));
}

#[tokio::test]
async fn filters_and_limits_apply_without_a_restart() {
    let entry = stdio(&Behaviour::new());
    let host = TestHost::start(&[("server", entry.clone())]).await;
    let session = host.ready("server").await;
    assert!(host.tools("server").len() > 20);

    let tools = json!({ "include": ["echo", "sleep"], "resources": false, "prompts": false });
    let filtered = with(with(entry.clone(), "tools", tools), "timeout", 1);
    let report = host.reload(&[("server", filtered)]).await;
    assert!(report.is_noop());
    assert_eq!(host.tools("server"), ["echo", "sleep"]);
    let outcome = host.call("server", "sleep", json!({ "ms": 60_000 })).await;
    assert!(outcome.text().contains("timed out"), "{}", outcome.text());
    assert!(Arc::ptr_eq(&session, &host.ready("server").await));

    host.reload(&[("server", entry)]).await;
    assert!(host.tools("server").len() > 20);
    assert!(Arc::ptr_eq(&session, &host.ready("server").await));
}

#[tokio::test]
async fn a_broken_file_changes_nothing() {
    let host = TestHost::start(&[("server", stdio(&Behaviour::new()))]).await;
    let session = host.ready("server").await;
    for broken in [
        "mcp_servers: {unclosed",
        "mcp_servers:\n  server: {command: a}\n  server: {command: b}\n",
    ] {
        host.home.write_config(broken);
        let error = host.host.reload_from_home().await.unwrap_err().to_string();
        assert!(error.contains("line"), "{error}");
        assert!(Arc::ptr_eq(&session, &host.ready("server").await));
        assert_eq!(
            host.text("server", "echo", json!({ "text": "a" })).await,
            "a"
        );
    }
}

#[tokio::test]
async fn a_changed_variable_restarts_the_servers_that_use_it() {
    let home = TemporaryHome::new();
    home.write_env("USED=before\nUNUSED=before\n");
    let entry = stdio(&Behaviour::new());
    let servers = [
        (
            "user",
            with(entry.clone(), "env", json!({ "MINE": "${USED}" })),
        ),
        ("other", entry),
    ];
    let host = TestHost::start_in(home, &servers).await;
    host.ready("user").await;
    let other = host.ready("other").await;

    host.home.write_env("USED=before\nUNUSED=after\n");
    assert!(host.reload(&servers).await.is_noop());

    host.home.write_env("USED=after\nUNUSED=after\n");
    let report = host.reload(&servers).await;
    assert_eq!(report.restarted, named(&["user"]));
    assert_eq!(report.unchanged, named(&["other"]));
    host.ready("user").await;
    let environment = host.text("user", "environment", json!({})).await;
    let environment: Value = serde_json::from_str(&environment).unwrap();
    assert_eq!(environment["MINE"], "after");
    assert!(Arc::ptr_eq(&other, &host.ready("other").await));
}

#[tokio::test]
async fn failed_servers_are_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = BehaviourFile::new(directory.path(), &Behaviour::new());
    file.break_it();
    let mut locked =
        HttpServer::start(Behaviour::new().http(|http| http.bearer = Some("key".to_owned())));
    let servers = [
        ("failed", stdio_from(&file)),
        ("locked", json!({ "url": locked.url() })),
    ];
    let host = TestHost::start(&servers).await;
    host.until("failed", |link| link.error.is_some()).await;
    let link = host.reaches("locked", LinkStatus::NeedsAuth).await;
    let error = link.error.unwrap().to_string();
    assert!(error.contains("hermes mcp login locked"), "{error}");
    assert!(host.tools("locked").is_empty());

    file.set(&Behaviour::new());
    let port = locked.port();
    locked.stop();
    let _open = HttpServer::start_on(port, Behaviour::new());
    let report = host.reload(&servers).await;
    assert_eq!(report.retried, named(&["failed", "locked"]));
    assert!(!report.is_noop());
    host.ready("failed").await;
    host.ready("locked").await;
}

#[tokio::test]
async fn a_parked_server_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = BehaviourFile::new(directory.path(), &Behaviour::new());
    file.break_it();
    let servers = [("server", stdio_from(&file))];
    let host = TestHost::start(&servers).await;
    loop {
        let link = host.until("server", |link| link.error.is_some()).await;
        if link.status == LinkStatus::Parked {
            break;
        }
        host.host.retry_failed();
        let ended = link.attempts_ended;
        host.until("server", |link| link.attempts_ended > ended)
            .await;
    }
    file.set(&Behaviour::new());
    let report = host.reload(&servers).await;
    assert_eq!(report.retried, named(&["server"]));
    host.ready("server").await;
    assert!(!host.tools("server").is_empty());
}

#[tokio::test]
async fn a_reference_that_resolves_again_brings_its_server_back() {
    let entry = stdio(&Behaviour::new());
    let entry = with(entry, "env", json!({ "KEY": "${file:key.txt}" }));
    let servers = [("server", entry)];
    let host = TestHost::start(&servers).await;
    host.reaches("server", LinkStatus::Invalid).await;
    host.home.write("key.txt", "value\n");
    let report = host.reload(&servers).await;
    assert!(!report.is_noop());
    host.ready("server").await;
}

#[tokio::test]
async fn a_server_that_is_still_starting_is_left_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record");
    let slow = Behaviour::new()
        .record(&record)
        .process(|process| process.start_delay_ms = 700);
    let servers = [("server", stdio(&slow))];
    let host = TestHost::start(&servers).await;
    let report = host.reload(&servers).await;
    assert_eq!(report.unchanged, named(&["server"]));
    host.ready("server").await;
    assert_eq!(recorded(&record, "tools/list").len(), 1);
}

#[tokio::test]
async fn a_change_ends_an_attempt_that_is_going_nowhere() {
    let stuck = Behaviour::new().process(|process| process.start_delay_ms = 600_000);
    let host = TestHost::start(&[("server", stdio(&stuck))]).await;
    let report = host.reload(&[("server", stdio(&Behaviour::new()))]).await;
    assert_eq!(report.restarted, named(&["server"]));
    host.ready("server").await;
}

#[tokio::test]
async fn reloads_at_the_same_time_agree() {
    let failing = Behaviour::new().process(|process| {
        process.exit_at_start = Some(ExitAtStart::default());
    });
    let host = TestHost::start(&[("server", stdio(&failing))]).await;
    host.home.write_config(&crate::test_host::config(&[(
        "server",
        stdio(&Behaviour::new()),
    )]));
    let (one, other) = tokio::join!(host.host.reload_from_home(), host.host.reload_from_home());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.restarted.len() + other.restarted.len(), 1);
    host.ready("server").await;
    let own = hermes_testkit::descendants(std::process::id());
    let servers = own.iter().filter(|pid| **pid == host.pid("server"));
    assert_eq!(servers.count(), 1);
}
