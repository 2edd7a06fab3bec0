//! `hermes mcp ps` and `hermes mcp reload`.

use serde_json::{Value, json};

use super::working_server;
use crate::harness::{
    program::entry,
    test_home::{TIMEOUT, TestHome, assert_gone, is_running, read_pids, wait_until},
};

#[test]
fn ps_lists_what_runs_and_ends_it() {
    let home = TestHome::with_servers(&[]);
    let pids = home.beside("pids");
    let server = working_server().process(|process| process.pid_file = Some(pids.clone()));
    home.write_servers(&[("one", entry(&server))]);
    assert_eq!(
        home.run(&["mcp", "ps", "--json"]).json()["processes"],
        json!([])
    );

    let up = home.up(&["one: ready"]);
    let listed = home.run(&["mcp", "ps", "--json"]).json();
    let process = &listed["processes"][0];
    assert_eq!(process["server"], "one");
    assert_eq!(process["state"], "running");
    assert_eq!(process["host_pid"], up.pid());
    assert!(process["rss_bytes"].as_u64().unwrap() > 0);
    let first = read_pids(&pids)[0];
    assert_eq!(process["pid"], first);
    assert!(home.run(&["mcp", "ps"]).stdout.contains("MiB"));

    let killed = home.run(&["mcp", "ps", "--kill", "one", "--json"]);
    assert_eq!(killed.code, 0, "{killed:?}");
    assert_eq!(killed.json()["killed"], json!([first]));
    assert!(
        killed.stderr.contains("hermes mcp disable one"),
        "{killed:?}"
    );
    assert_gone(&[first], TIMEOUT);
    wait_until("its host starts it again", || read_pids(&pids).len() == 2);
    assert!(is_running(read_pids(&pids)[1]));
    assert_eq!(home.run(&["mcp", "ps", "--kill", "two"]).code, 3);
}

#[test]
fn reload_without_a_process_does_nothing() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let done = home.run(&["mcp", "reload", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        done.json(),
        json!({
            "ok": true, "processes": [], "added": [], "removed": [], "restarted": [],
            "unchanged": [], "retried": [],
        })
    );
    assert!(done.stderr.contains("No hermes process runs"), "{done:?}");
}

#[test]
fn reload_tells_what_it_did_and_refuses_a_broken_file() {
    let config = |servers: Value| {
        let auto = json!({"auto_reload_on_config_change": false});
        json!({"mcp": auto, "mcp_servers": servers}).to_string()
    };
    let home = TestHome::with_servers(&[]);
    let (one, other) = (
        entry(&working_server()),
        entry(&working_server().without_prompts()),
    );
    home.write_config(&config(json!({"a": one, "b": one, "c": one})));
    let up = home.up(&["a: ready", "b: ready", "c: ready"]);
    home.write_config(&config(json!({"a": one, "b": other, "d": one})));
    let done = home.run(&["mcp", "reload", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        done.json(),
        json!({
            "ok": true, "processes": [up.pid()], "added": ["d"], "removed": ["c"],
            "restarted": ["b"], "unchanged": ["a"], "retried": [],
        })
    );
    assert_eq!(home.run(&["mcp", "reload", "nobody"]).code, 3);
    home.write_config("mcp_servers: [");
    assert_eq!(home.run(&["mcp", "reload"]).code, 2);
    assert_eq!(
        home.run(&["mcp", "status", "--json"]).server("a")["status"],
        "ready"
    );
}
