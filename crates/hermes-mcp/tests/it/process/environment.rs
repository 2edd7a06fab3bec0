//! What a local server gets: its environment, its working directory, its references.

use std::collections::BTreeMap;

use hermes_testkit::{Behaviour, HttpServer, TemporaryHome, binary};
use serde_json::json;

use crate::setup::{Setup, stdio, with};

const INHERITED: [&str; 8] = [
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR",
];

async fn environment(setup: &Setup) -> BTreeMap<String, String> {
    let told = setup.call("mcp_s_environment", json!({})).await;
    serde_json::from_str(told["result"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn a_child_has_exactly_the_listed_variables_and_its_own() {
    let home = TemporaryHome::new();
    home.write_env("MY_TOKEN=from-dotenv-file\nUNASKED=stays-here\n");
    let entry = with(
        stdio(&Behaviour::new()),
        json!({ "env": { "GIVEN": "plain", "REFERRED": "<${MY_TOKEN}>", "TERM": "own" } }),
    );
    let setup = Setup::in_home(home, json!({ "s": entry })).await;

    let mut expected: BTreeMap<String, String> = std::env::vars()
        .filter(|(name, _)| INHERITED.contains(&name.as_str()) || name.starts_with("XDG_"))
        .collect();
    for (name, value) in [
        ("GIVEN", "plain"),
        ("REFERRED", "<from-dotenv-file>"),
        ("TERM", "own"),
    ] {
        expected.insert(name.into(), value.into());
    }
    // The directory of the program comes first in PATH.
    let directory = binary("testkit-stdio").parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|known| known == directory) {
        let all = std::iter::once(directory).chain(std::env::split_paths(&path));
        let joined = std::env::join_paths(all).unwrap().into_string().unwrap();
        expected.insert("PATH".into(), joined);
    }
    assert_eq!(environment(&setup).await, expected);
    // The test would prove nothing if there were nothing to leave out.
    assert!(std::env::vars().any(|(name, _)| !expected.contains_key(&name)));
}

#[tokio::test]
async fn an_unset_reference_stays_as_written() {
    let entry = with(
        stdio(&Behaviour::new()),
        json!({ "env": { "A": "${HERMES_TEST_SURELY_UNSET}", "B": "${env:HERMES_TEST_SURELY_UNSET}" } }),
    );
    let setup = Setup::start(json!({ "s": entry })).await;
    let environment = environment(&setup).await;
    assert_eq!(environment["A"], "${HERMES_TEST_SURELY_UNSET}");
    assert_eq!(environment["B"], "${env:HERMES_TEST_SURELY_UNSET}");
}

#[tokio::test]
async fn references_work_in_addresses_and_headers() {
    let server = HttpServer::start(Behaviour::new().http(|http| {
        http.bearer = Some("the-right-token".into());
    }));
    let home = TemporaryHome::new();
    let address = server.origin();
    home.write_env(&format!("ADDRESS={address}\nTOKEN=the-right-token\n"));
    let entry = json!({
        "url": "${ADDRESS}/mcp",
        "headers": { "Authorization": "Bearer ${env:TOKEN}", "X-Unset": "${HERMES_TEST_SURELY_UNSET}" },
    });
    let setup = Setup::in_home(home, json!({ "s": entry })).await;
    setup.assert_ready("s");
    for request in server.requests() {
        assert_eq!(
            request.header("x-unset"),
            Some("${HERMES_TEST_SURELY_UNSET}")
        );
    }
}

#[tokio::test]
async fn references_work_in_arguments_too() {
    let home = TemporaryHome::new();
    home.write_env("SERVER_NAME=named-by-reference\n");
    let behaviour = Behaviour {
        name: "${SERVER_NAME}".into(),
        ..Behaviour::new()
    };
    let setup = Setup::in_home(home, json!({ "s": stdio(&behaviour) })).await;
    let info = setup.status("s").server_info.unwrap();
    assert_eq!(info.name, "named-by-reference");
}

#[tokio::test]
async fn the_working_directory_is_honoured() {
    let directory = TemporaryHome::new();
    let place = directory.path().canonicalize().unwrap();
    for key in ["cwd", "workdir"] {
        let entry = with(
            stdio(&Behaviour::new()),
            json!({ key: place.to_str().unwrap() }),
        );
        let setup = Setup::start(json!({ "s": entry })).await;
        let told = setup.call("mcp_s_cwd", json!({})).await;
        assert_eq!(told, json!({ "result": place.to_str().unwrap() }), "{key}");
    }
}

#[tokio::test]
async fn without_a_working_directory_it_is_the_hosts() {
    let setup = Setup::start(json!({ "s": stdio(&Behaviour::new()) })).await;
    let told = setup.call("mcp_s_cwd", json!({})).await;
    let own = std::env::current_dir().unwrap();
    assert_eq!(told, json!({ "result": own.to_str().unwrap() }));
}
