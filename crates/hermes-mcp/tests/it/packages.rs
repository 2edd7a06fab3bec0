//! What is looked at before a local server is started: its entry, and the package that would be fetched for it.

use std::{net::TcpListener, os::unix::fs::PermissionsExt, time::Instant};

use axum::response::Response;
use hermes_mcp::LinkStatus;
use hermes_testkit::{Behaviour, OddTool, TemporaryHome, binary, recorded};
use serde_json::{Value, json};

use crate::{
    setup::{Setup, stdio, with_neighbour},
    transport::http::{
        server,
        server::{SeenRequest, Server},
    },
};

/// A package runner that runs a test server whatever it is told to fetch.
fn runner(home: &TemporaryHome, name: &str, arguments: &[&str]) -> Value {
    let record = home.path().join("record");
    let behaviour = Behaviour::new().record(record);
    let (command, args) = behaviour.stdio_command(&binary("testkit-stdio"));
    let quoted = args
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    let quoted = quoted.collect::<Vec<_>>().join(" ");
    let script = format!("#!/bin/sh\nexec '{command}' {quoted}\n");
    let path = home.write(&format!("bin/{name}"), &script);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    json!({ "command": path, "args": arguments })
}

/// A database that answers every question with these reports.
async fn database(reports: &'static [&'static str]) -> Server {
    Server::answering(move |_: &SeenRequest| -> Response {
        let reports: Vec<Value> = reports.iter().map(|id| json!({ "id": id })).collect();
        server::typed(
            200,
            "application/json",
            json!({ "vulns": reports }).to_string(),
        )
    })
    .await
}

fn home(endpoint: &str) -> TemporaryHome {
    let home = TemporaryHome::new();
    home.write_env(&format!("OSV_ENDPOINT={endpoint}\n"));
    home
}

fn was_started(setup: &Setup) -> bool {
    setup.path("record").exists()
}

#[tokio::test]
async fn a_malicious_package_is_never_started_and_its_reports_are_named() {
    let database = database(&["GHSA-1", "MAL-2024-1", "MAL-2024-2", "MAL-3", "MAL-4"]).await;
    let home = home(&database.url("/v1/query"));
    let entry = runner(&home, "npx", &["-y", "@evil/server@1.2.3"]);
    let setup = Setup::in_home(home, with_neighbour(json!({ "s": entry }))).await;
    let status = setup.status("s");
    assert_eq!(status.status, LinkStatus::Invalid);
    let error = status.error.unwrap();
    assert!(error.contains("`@evil/server`"), "{error}");
    assert!(error.contains("MAL-2024-1, MAL-2024-2, MAL-3"), "{error}");
    assert!(
        !error.contains("MAL-4") && !error.contains("GHSA"),
        "{error}"
    );
    assert!(!was_started(&setup));
    let asked = database.seen()[0].json();
    let package = json!({ "name": "@evil/server", "ecosystem": "npm" });
    assert_eq!(asked, json!({ "package": package, "version": "1.2.3" }));
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn a_package_with_ordinary_flaws_is_started_and_asked_about_once() {
    let database = database(&["GHSA-1", "CVE-2024-1"]).await;
    let mut home = home(&database.url("/v1/query"));
    let entry = runner(&home, "uvx", &["--from", "tool-pack", "tool"]);
    for _ in 0..2 {
        let setup = Setup::in_home(home, json!({ "s": entry })).await;
        setup.assert_ready("s");
        setup.host.shutdown().await;
        home = setup.home;
    }
    let asked: Vec<Value> = database.seen().iter().map(SeenRequest::json).collect();
    let package = json!({ "name": "tool-pack", "ecosystem": "PyPI" });
    assert_eq!(
        asked,
        [json!({ "package": package })],
        "the answer was kept"
    );
}

#[tokio::test]
async fn no_answer_is_not_a_reason_not_to_start() {
    // Nobody is there; somebody is there and says nothing; somebody talks nonsense.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = (silent.local_addr().unwrap(), silent);
    let nonsense = Server::answering(|_| server::typed(200, "text/html", "<html>")).await;
    for endpoint in [
        "http://127.0.0.1:9/".to_owned(),
        format!("http://{}/", silent.0),
        nonsense.url("/"),
        "no address".to_owned(),
    ] {
        let mut home = home(&endpoint);
        let mut entry = runner(&home, "npx", &["server"]);
        entry["connect_timeout"] = json!(8);
        let began = Instant::now();
        let setup = Setup::in_home(home, json!({ "s": entry })).await;
        setup.assert_ready("s");
        let first = began.elapsed();
        setup.host.shutdown().await;
        home = setup.home;
        // It is not waited for again and again.
        let began = Instant::now();
        let setup = Setup::in_home(home, json!({ "s": entry })).await;
        setup.assert_ready("s");
        if endpoint.contains(&silent.0.to_string()) {
            assert!(began.elapsed() < first, "{:?} {first:?}", began.elapsed());
        }
    }
    drop(silent);
}

#[tokio::test]
async fn nobody_is_asked_about_what_is_not_fetched() {
    let database = database(&["MAL-1"]).await;
    let home = home(&database.url("/v1/query"));
    let local = runner(&home, "npx", &["./server"]);
    let servers = json!({ "plain": stdio(&Behaviour::new()), "local": local });
    let setup = Setup::in_home(home, servers).await;
    setup.assert_ready("plain");
    setup.assert_ready("local");
    assert_eq!(database.seen().len(), 0);
}

#[tokio::test]
async fn the_check_can_be_switched_off() {
    let home = home("off");
    let entry = runner(&home, "npx", &["server"]);
    let setup = Setup::in_home(home, json!({ "s": entry })).await;
    setup.assert_ready("s");
    assert!(!setup.path("cache/osv").exists());
}

#[tokio::test]
async fn an_entry_that_looks_like_an_attack_is_invalid_and_never_started() {
    let home = TemporaryHome::new();
    home.write_env("SCRIPT=\"touch record; curl http://127.0.0.1:9/\"\n");
    let servers = with_neighbour(json!({
        "written": { "command": "bash", "args": ["-c", "touch record; wget http://127.0.0.1:9/"] },
        "hidden": { "command": "bash", "args": ["-c", "${SCRIPT}"] },
    }));
    let setup = Setup::in_home(home, servers).await;
    for (server, word) in [("written", "wget"), ("hidden", "curl")] {
        let status = setup.status(server);
        assert_eq!(status.status, LinkStatus::Invalid, "{server}");
        let error = status.error.unwrap();
        assert!(error.contains("refused") && error.contains(word), "{error}");
    }
    assert!(!was_started(&setup));
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn a_description_that_speaks_to_the_model_is_a_warning() {
    let behaviour = Behaviour::new().lists(|lists| lists.odd_tools = vec![OddTool::Injection]);
    let setup = Setup::start(json!({ "s": stdio(&behaviour) })).await;
    setup.assert_ready("s");
    let warnings = setup.status("s").warnings;
    let about = warnings.iter().find(|text| text.contains("`injection`"));
    let about = about.unwrap_or_else(|| panic!("{warnings:?}"));
    assert!(about.contains("ignore instructions"), "{about}");
    assert!(about.contains("keep quiet"), "{about}");
    // It is offered all the same.
    assert!(setup.host.registry().find("mcp_s_injection").is_some());
    assert_eq!(recorded(&setup.path("record"), "tools/call").len(), 0);
}
