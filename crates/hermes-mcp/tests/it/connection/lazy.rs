//! Servers that are known from the last time and started by the first call.

use std::path::PathBuf;

use hermes_mcp::LinkStatus;
use hermes_testkit::{Behaviour, Tool, process_exists};
use serde_json::{Value, json};

use crate::test_host::{BehaviourFile, TestHost, pids, stdio, stdio_from, with};

fn lazy(entry: Value) -> [(&'static str, Value); 1] {
    [("server", with(entry, "lazy", true))]
}

#[tokio::test]
async fn the_first_start_connects_and_the_next_waits_for_a_call() {
    let directory = tempfile::tempdir().unwrap();
    let starts = directory.path().join("pids");
    let behaviour = Behaviour::new().process(|process| process.pid_file = Some(starts.clone()));
    let servers = lazy(stdio(&behaviour));
    let host = TestHost::start(&servers).await;
    host.ready("server").await;
    let tools = host.tools("server");
    host.remembered("server").await;
    let home = host.end().await;
    assert_eq!(pids(&starts).len(), 1);

    let host = TestHost::start_in(home, &servers).await;
    host.reaches("server", LinkStatus::Lazy).await;
    assert_eq!(host.tools("server"), tools);
    assert_eq!(
        host.host
            .wait_until_settled(crate::test_host::TIMEOUT)
            .await,
        []
    );
    assert_eq!(pids(&starts).len(), 1, "nothing was started");
    assert_eq!(host.status("server").pid, None);
    let link = host.reaches("server", LinkStatus::Lazy).await;
    let catalog = link.catalog.unwrap();
    assert!(!catalog.resources.is_empty() && !catalog.prompts.is_empty());

    assert_eq!(
        host.text("server", "echo", json!({ "text": "a" })).await,
        "a"
    );
    assert_eq!(host.status("server").status, LinkStatus::Ready);
    assert_eq!(pids(&starts).len(), 2);
    assert!(process_exists(host.pid("server")));
}

#[tokio::test]
async fn the_manifest_is_private_and_holds_no_secret() {
    let entry = with(
        stdio(&Behaviour::new()),
        "env",
        json!({ "API_KEY": "${API_KEY}" }),
    );
    let home = hermes_testkit::TemporaryHome::new();
    home.write_env("API_KEY=very-secret-value\n");
    let host = TestHost::start_in(home, &lazy(entry)).await;
    host.ready("server").await;
    host.remembered("server").await;
    let directory = host.home.path().join("cache/mcp");
    let mode = |path: &std::path::Path| {
        let metadata = std::fs::metadata(path).unwrap();
        std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777
    };
    assert_eq!(mode(&directory), 0o700);
    for path in host.manifests() {
        assert_eq!(mode(&path), 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"echo\""));
        assert!(!text.contains("very-secret-value"));
    }
}

#[tokio::test]
async fn tools_that_differ_from_the_remembered_ones_are_published() {
    let directory = tempfile::tempdir().unwrap();
    let file = BehaviourFile::new(
        directory.path(),
        &Behaviour::new().tools([Tool::named("echo"), Tool::named("old")]),
    );
    let servers = lazy(stdio_from(&file));
    let host = TestHost::start(&servers).await;
    host.ready("server").await;
    host.remembered("server").await;
    let home = host.end().await;

    file.set(&Behaviour::new().tools([Tool::named("echo"), Tool::named("new")]));
    let host = TestHost::start_in(home, &servers).await;
    host.reaches("server", LinkStatus::Lazy).await;
    assert_eq!(host.tools("server")[..2], ["echo", "old"]);
    host.text("server", "echo", json!({ "text": "a" })).await;
    assert_eq!(host.tools("server")[..2], ["echo", "new"]);
    // The next run knows it, too.
    let is_new =
        |path: &PathBuf| std::fs::read_to_string(path).is_ok_and(|text| text.contains("\"new\""));
    let is_updated = || host.manifests().iter().any(is_new);
    assert!(hermes_testkit::eventually(crate::test_host::TIMEOUT, is_updated).await);
}

#[tokio::test]
async fn the_tools_stay_on_the_list_while_the_server_starts() {
    let directory = tempfile::tempdir().unwrap();
    let file = BehaviourFile::new(directory.path(), &Behaviour::new());
    let servers = lazy(stdio_from(&file));
    let host = TestHost::start(&servers).await;
    host.ready("server").await;
    host.remembered("server").await;
    let home = host.end().await;

    file.set(&Behaviour::new().process(|process| process.start_delay_ms = 700));
    let host = TestHost::start_in(home, &servers).await;
    host.reaches("server", LinkStatus::Lazy).await;
    let tools = host.tools("server");
    host.host.wake(&hermes_config::ServerName::new("server"));
    let link = host
        .until("server", |link| link.status != LinkStatus::Lazy)
        .await;
    assert!(link.session.is_none(), "it cannot be ready yet");
    assert_eq!(host.tools("server"), tools);
    host.ready("server").await;
}

#[tokio::test]
async fn a_call_to_a_lazy_server_that_does_not_start_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = BehaviourFile::new(directory.path(), &Behaviour::new());
    let servers = lazy(stdio_from(&file));
    let host = TestHost::start(&servers).await;
    host.ready("server").await;
    host.remembered("server").await;
    let home = host.end().await;

    file.break_it();
    let host = TestHost::start_in(home, &servers).await;
    host.reaches("server", LinkStatus::Lazy).await;
    // Long before its time to connect is over.
    let outcome = host.call("server", "echo", json!({ "text": "a" })).await;
    let error = outcome.to_json();
    assert!(
        error.contains("reconnecting") && error.contains("out of order"),
        "{error}"
    );
    assert_eq!(host.status("server").attempt, 1);
}

#[tokio::test]
async fn another_configuration_is_not_known_from_the_last_time() {
    let host = TestHost::start(&lazy(stdio(&Behaviour::new()))).await;
    host.ready("server").await;
    host.remembered("server").await;
    let home = host.end().await;
    let other = with(stdio(&Behaviour::new()), "env", json!({ "A": "b" }));
    let host = TestHost::start_in(home, &lazy(other)).await;
    // Straight to a session: there was nothing to be lazy about.
    host.ready("server").await;
}

#[tokio::test]
async fn a_manifest_that_cannot_be_read_counts_as_absent() {
    let servers = lazy(stdio(&Behaviour::new()));
    let host = TestHost::start(&servers).await;
    host.ready("server").await;
    host.remembered("server").await;
    let home = host.end().await;
    for file in std::fs::read_dir(home.path().join("cache/mcp")).unwrap() {
        std::fs::write(file.unwrap().path(), "{\"era\":").unwrap();
    }
    let host = TestHost::start_in(home, &servers).await;
    host.ready("server").await;
}
