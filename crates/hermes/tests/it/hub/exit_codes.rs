//! What scripts rely on: exit codes, and `--json` that is the REST JSON.

use std::io::{Read, Write};

use hermes_testkit::wait_for;

use crate::{
    harness::test_home::{TIMEOUT, TestHome},
    hub::hub_process::HubProcess,
};

/// The body that the Hub gives to a plain request.
fn fetch(hub: &HubProcess, path: &str) -> String {
    let token = std::fs::read_to_string(hub.data().join("admin.token")).unwrap();
    let address = hub.url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        token.trim()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn json_is_the_rest_json_byte_for_byte() {
    let hub = HubProcess::with_acme();
    for (args, path) in [
        (&["tenant", "list"][..], "/v1/tenants"),
        (&["tenant", "get", "acme"], "/v1/tenants/acme"),
        (
            &["share", "list", "--tenant", "acme"],
            "/v1/tenants/acme/shares",
        ),
        (&["policy", "get"], "/v1/agent-policy"),
        (&["hub", "config", "get"], "/v1/config/tenant-impact"),
    ] {
        // The agent may start and the home may be measured in between.
        let pair = wait_for(TIMEOUT, || {
            let before = fetch(&hub, path);
            let printed = hub.run(&[args, &["--json"]].concat()).ok().stdout;
            (before == fetch(&hub, path)).then_some((printed, before))
        });
        let (printed, fetched) = pair.expect("it does not stay the same");
        assert_eq!(printed.strip_suffix('\n').unwrap(), fetched, "{args:?}");
    }
    let nothing = hub
        .run(&["tenant", "delete", "acme", "--yes", "--json"])
        .ok();
    assert_eq!(nothing.stdout, "{\"ok\": true}\n");
}

#[test]
fn a_problem_is_the_json_too() {
    let hub = HubProcess::new();
    let problem = hub
        .run(&["tenant", "get", "nobody", "--json"])
        .exits_with(3)
        .json();
    assert_eq!(problem["code"], "not_found");
    assert_eq!(problem["status"], 404);
}

#[test]
fn every_exit_code_means_what_it_says() {
    let hub = HubProcess::with_acme();
    hub.run(&["tenant", "get", "acme"]).exits_with(0);
    // 1: it exists already.
    hub.run(&["tenant", "create", "acme"]).exits_with(1);
    // 2: no such option, and an id that is none.
    hub.run(&["tenant", "get"]).exits_with(2);
    hub.run(&["tenant", "create", "Not An Id"]).exits_with(2);
    hub.run(&["tenant", "get", "nobody"]).exits_with(3);
    let mut command = hub.command(&["tenant", "list"]);
    command.env("HERMES_HUB_TOKEN", "hub_mgmt_wrong");
    crate::harness::program::run(command, "").exits_with(4);
    // 5: nobody is there to answer, and nothing was changed.
    hub.run(&["tenant", "delete", "acme"]).exits_with(5);
    hub.run(&["tenant", "get", "acme"]).exits_with(0);
}

#[test]
fn a_hub_that_is_not_there_is_unavailable() {
    let home = TestHome::fresh();
    let told = home
        .run(&["tenant", "list", "--hub", "http://127.0.0.1:9"])
        .exits_with(6);
    assert!(
        told.stderr.contains("does not answer") && told.stderr.contains("hermes up"),
        "{told:?}"
    );
    let told = home
        .run(&["tenant", "list", "--hub", "http://127.0.0.1:9", "--json"])
        .exits_with(6);
    assert_eq!(told.json()["error"]["code"], "unavailable");
}
