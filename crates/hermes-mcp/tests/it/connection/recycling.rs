//! Quiet servers: kept alive by a ping, or stopped until somebody wants them.

use std::time::Duration;

use hermes_mcp::LinkStatus;
use hermes_testkit::{Behaviour, Era, eventually, process_exists, recorded};
use serde_json::json;

use crate::test_host::{TIMEOUT, TestHost, stdio, with};

#[tokio::test]
async fn a_quiet_legacy_session_is_pinged_and_a_stateless_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let record = |name: &str| directory.path().join(name);
    let servers = [("legacy", Era::Legacy), ("stateless", Era::Stateless)].map(|(name, era)| {
        let behaviour = Behaviour::new().era(era).record(record(name));
        (name, with(stdio(&behaviour), "keepalive_interval", 5))
    });
    let host = TestHost::start(&servers).await;
    let session = host.ready("legacy").await;
    host.ready("stateless").await;
    let pings = || recorded(&record("legacy"), "ping").len();
    assert!(eventually(TIMEOUT, || pings() >= 1).await);
    assert!(recorded(&record("stateless"), "ping").is_empty());
    assert!(std::sync::Arc::ptr_eq(
        &session,
        &host.ready("legacy").await
    ));
}

#[tokio::test]
async fn an_idle_server_is_stopped_and_the_next_call_starts_it() {
    let entry = with(stdio(&Behaviour::new()), "idle_timeout_seconds", 1);
    let host = TestHost::start(&[("server", entry)]).await;
    let pid = host.ready("server").await.pid.unwrap();
    let tools = host.tools("server");

    let link = host.reaches("server", LinkStatus::Lazy).await;
    assert!(link.session.is_none());
    assert!(eventually(TIMEOUT, || !process_exists(pid)).await);
    assert_eq!(host.tools("server"), tools);
    assert_eq!(host.status("server").attempt, 0);

    assert_eq!(
        host.text("server", "echo", json!({ "text": "a" })).await,
        "a"
    );
    assert_ne!(host.pid("server"), pid);
    host.reaches("server", LinkStatus::Lazy).await;
}

#[tokio::test]
async fn a_call_to_a_server_that_is_being_stopped_gets_a_new_one() {
    let slow_to_leave = Behaviour::new().process(|process| process.ignore_stdin_close = true);
    let entry = with(stdio(&slow_to_leave), "idle_timeout_seconds", 1);
    let host = TestHost::start(&[("server", entry)]).await;
    let old = host.ready("server").await.pid.unwrap();
    host.reaches("server", LinkStatus::Lazy).await;
    assert!(process_exists(old), "it takes two seconds to be stopped");
    assert_eq!(
        host.text("server", "echo", json!({ "text": "a" })).await,
        "a"
    );
    assert!(!process_exists(old), "never two at once");
}

#[tokio::test]
async fn an_old_server_is_stopped_but_not_during_a_call() {
    let entry = with(stdio(&Behaviour::new()), "max_lifetime_seconds", 1);
    let host = TestHost::start(&[("server", entry)]).await;
    let pid = host.ready("server").await.pid.unwrap();
    let slept = host.text("server", "sleep", json!({ "ms": 2500 })).await;
    assert_eq!(slept, "slept 2500 ms");
    host.reaches("server", LinkStatus::Lazy).await;
    assert!(eventually(TIMEOUT, || !process_exists(pid)).await);
}

#[tokio::test]
async fn a_busy_server_is_not_idle() {
    let entry = with(stdio(&Behaviour::new()), "idle_timeout_seconds", 2);
    let host = TestHost::start(&[("server", entry)]).await;
    let session = host.ready("server").await;
    let slept = host.text("server", "sleep", json!({ "ms": 3500 })).await;
    assert_eq!(slept, "slept 3500 ms");
    assert!(!session.ended.is_cancelled());
    let ended = tokio::time::timeout(TIMEOUT, session.ended.cancelled()).await;
    assert!(ended.is_ok());
}

#[tokio::test]
async fn without_a_limit_a_server_stays() {
    let host = TestHost::start(&[("server", stdio(&Behaviour::new()))]).await;
    let session = host.ready("server").await;
    let ended = tokio::time::timeout(Duration::from_secs(2), session.ended.cancelled()).await;
    assert!(ended.is_err());
}
