//! `hermes mcp ps` and `hermes mcp reload`.

use std::{
    fs,
    io::{ErrorKind, Read as _},
    os::unix::net::{UnixListener, UnixStream},
};

use hermes_testkit::{Era, HttpServer, wait_for};
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
    let mistyped = home.run(&["mcp", "ps", "--kill", "oen"]).exits_with(3);
    assert!(
        mistyped.stderr.contains("did you mean `one`?"),
        "{mistyped:?}"
    );
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

#[test]
fn a_reload_and_a_test_look_behind_the_ready_of_a_running_process() {
    for command in [&["mcp", "reload"][..], &["mcp", "test", "far"]] {
        // Without a stream, a ping or a call nobody notices.
        let silent = || {
            working_server()
                .era(Era::Legacy)
                .http(|http| http.get_stream = false)
        };
        let mut server = HttpServer::start(silent());
        let far = json!({"url": server.url(), "keepalive_interval": 0});
        let home = TestHome::with_servers(&[("far", far)]);
        let _up = home.up(&["far: ready"]);
        let status = || home.run(&["mcp", "status", "--json"]).server("far")["status"].clone();
        server.stop();
        assert_eq!(status(), "ready", "{command:?}");
        home.run(command);
        wait_until("it is missed", || status() == "reconnecting");

        let _again = HttpServer::start_on(server.port(), silent());
        home.run(command).ok();
        wait_until("it is back", || status() == "ready");
    }
}

/// Whether the other side still waits for an answer.
fn is_open(mut stream: &UnixStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read_to_end(&mut Vec::new());
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_running_process_is_asked_about_all_servers_at_once() {
    let server = entry(&working_server());
    let names = ["one", "two", "three"];
    let home = TestHome::with_servers(&names.map(|name| (name, server.clone())));
    // A process of this home that never answers.
    fs::create_dir(home.path().join("run")).unwrap();
    let listener = UnixListener::bind(home.path().join("run/host-1.sock")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let ask = || {
        let mut test = home.start(&["mcp", "test", "--all"]);
        let accept = || wait_for(TIMEOUT, || listener.accept().ok());
        let asked = names.map(|_| accept().unwrap().0);
        let are_open = asked.iter().all(is_open);
        drop(asked);
        assert_eq!(test.wait(), Some(0));
        are_open
    };
    // A busy machine may take longer than the command waits.
    assert!((0..5).any(|_| ask()));
}
