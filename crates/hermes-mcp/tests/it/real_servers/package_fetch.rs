//! Package runners whose cache is empty: they fetch a server before it can answer, and are started once.

use std::time::Duration;

use hermes_mcp::LinkStatus;
use hermes_testkit::TemporaryHome;
use serde_json::{Value, json};

use super::installed;
use crate::setup::Setup;

/// As long as a runner may take to fetch a server over a slow line.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(150);

/// The server that the equipment has for a runner.
fn fetched(name: &str) -> String {
    let versions = include_str!("../../../../../scripts/versions.sh");
    let line = versions
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap().to_owned()
}

/// Connects a server and counts its starts in the log.
async fn connects_with_one_start(mut entry: Value) {
    entry["connect_timeout"] = json!(CONNECT_TIMEOUT.as_secs());
    let setup = Setup::in_home(TemporaryHome::new(), json!({ "s": entry })).await;
    setup.host.wait_until_settled(CONNECT_TIMEOUT).await;
    let status = setup.status("s");
    assert_eq!(status.status, LinkStatus::Ready, "{status:?}");
    setup.host.shutdown().await;
    let log = setup.home.path().join("logs/mcp-stderr.log");
    let log = std::fs::read_to_string(log).unwrap();
    let starts = log.lines().filter(|line| line.starts_with("---- "));
    assert_eq!(starts.count(), 1, "{log}");
    assert!(!log.contains("EPIPE"), "{log}");
}

#[tokio::test]
async fn npx_with_an_empty_cache_is_started_once() {
    // Without the equipment there is no `npx` either.
    if installed("HERMES_TEST_RUNNERS", "npm").is_none() {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    connects_with_one_start(json!({
        "command": "npx",
        "args": ["-y", fetched("npx_server"), cache.path()],
        "env": { "npm_config_cache": cache.path() },
    }))
    .await;
}

#[tokio::test]
async fn uvx_with_an_empty_cache_is_started_once() {
    let Some(uvx) = installed("HERMES_TEST_RUNNERS", "bin/uvx") else {
        return;
    };
    let cache = tempfile::tempdir().unwrap();
    connects_with_one_start(json!({
        "command": uvx,
        "args": ["--python", "/usr/bin/python3", fetched("uvx_server")],
        "env": { "UV_CACHE_DIR": cache.path(), "UV_SYSTEM_CERTS": "1" },
    }))
    .await;
}
