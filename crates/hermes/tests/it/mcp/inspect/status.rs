//! `hermes mcp status`, and `hermes mcp` alone.

use hermes_testkit::Era;
use serde_json::json;

use super::working_server;
use crate::harness::{program::entry, test_home::TestHome};

#[test]
fn without_a_process_it_tells_what_configuration_and_cache_know() {
    let home = TestHome::with_servers(&[
        ("seen", entry(&working_server())),
        ("new", entry(&working_server().era(Era::Legacy))),
        ("off", json!({"command": "x", "enabled": false})),
        ("bad", json!({})),
    ]);
    assert_eq!(home.run(&["mcp", "test", "seen"]).code, 0);
    let status = home.run(&["mcp", "status", "--json"]);
    assert_eq!(status.code, 0, "{status:?}");
    assert_eq!(status.json()["processes"], json!([]));
    let seen = status.server("seen");
    assert_eq!(
        (&seen["status"], &seen["era"]),
        (&json!("stopped"), &json!("stateless"))
    );
    assert!(seen["tools"].as_u64().unwrap() > 0, "{seen}");
    assert_eq!(status.server("new")["tools"], 0);
    assert_eq!(status.server("off")["status"], "disabled");
    assert_eq!(status.server("bad")["status"], "invalid");
}

#[test]
fn with_a_process_it_is_live() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let up = home.up(&["one: ready"]);
    let status = home.run(&["mcp", "status", "--json"]);
    assert_eq!(status.json()["processes"], json!([up.pid()]));
    let one = status.server("one");
    assert_eq!(one["status"], "ready");
    assert!(one["pid"].is_u64(), "{one}");
    let table = home.run(&["mcp", "status"]).stdout;
    assert!(table.contains("one   stdio      ready"), "{table}");
}

#[test]
fn one_server_is_told_in_full_and_an_unknown_one_is_not_found() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let _up = home.up(&["one: ready"]);
    let one = home.run(&["mcp", "status", "one"]).stdout;
    assert!(one.starts_with("one: ready\n"), "{one}");
    assert!(one.contains("testkit"), "{one}");
    assert_eq!(home.run(&["mcp", "status", "two"]).code, 3);
}

#[test]
fn a_broken_file_hides_no_running_server() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let _up = home.up(&["one: ready"]);
    home.write_config("mcp_servers: [");
    let status = home.run(&["mcp", "status", "--json"]);
    assert_eq!(status.code, 0, "{status:?}");
    assert_eq!(status.server("one")["status"], "ready");
    assert!(status.stderr.contains("line 1"), "{status:?}");
}

#[test]
fn looking_runs_no_command() {
    let home = TestHome::with_servers(&[]);
    let trace = home.beside("trace");
    let command = format!("${{cmd:touch {}}}", trace.display());
    home.write_servers(&[("one", json!({"command": "x", "args": [command]}))]);
    assert_eq!(home.run(&["mcp", "status"]).code, 0);
    assert!(!trace.exists());
}

#[test]
fn mcp_alone_shows_states_and_verbs() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let done = home.run(&["mcp"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("one   stdio      stopped"), "{done:?}");
    assert!(
        done.stdout.contains("doctor     Check for problems"),
        "{done:?}"
    );
    assert!(home.run(&["mcp", "--json"]).json()["servers"].is_array());
}
