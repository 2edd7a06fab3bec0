//! `testkit-stdio` and `testkit-pipe` as child processes.

use std::{
    io::Read,
    process::Command,
    time::{Duration, Instant},
};

use hermes_testkit::{
    Behaviour, Era, ExitAtStart, Grandchild, OversizedLine, STATELESS, binary, process_exists,
    recorded, recorded_messages, wait_until,
};
use serde_json::json;

use crate::pipe::PipedServer;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a signal by name, for instance `TERM`.
fn signal(name: &str, pid: u32) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_legacy_client_is_served_until_stdin_closes() {
    let mut server = PipedServer::start(&Behaviour::new());
    assert_eq!(
        server.initialize()["result"]["protocolVersion"],
        "2025-11-25"
    );
    assert_eq!(server.call("echo", &json!({ "text": "hello" })), "hello");
    assert_eq!(server.call("counter", &json!({})), "2");
    assert_eq!(server.finish(), Some(0));
}

#[test]
fn a_crash_ends_the_process_in_the_middle_of_a_call() {
    let mut server = PipedServer::start(&Behaviour::new());
    server.initialize();
    server.send(r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"crash"}}"#);
    assert_eq!(server.line(), None);
    assert_eq!(server.child.wait().unwrap().code(), Some(3));
}

#[test]
fn everything_received_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record");
    let mut server = PipedServer::start(&Behaviour::new().record(&record));
    server.initialize();
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#);
    server.send("this is not JSON");
    server.request("no/such/method", &json!({}));
    server.finish();
    assert_eq!(recorded(&record, "initialize").len(), 1);
    assert_eq!(
        recorded(&record, "notifications/cancelled")[0]["params"]["requestId"],
        5
    );
    assert_eq!(recorded(&record, "no/such/method").len(), 1);
    assert_eq!(
        recorded_messages(&record)[2]["unparsable"],
        "this is not JSON"
    );
}

#[test]
fn junk_and_floods_precede_a_working_server() {
    let behaviour = Behaviour::new().process(|process| {
        process.junk_stdout = vec!["Welcome!".to_owned()];
        process.stderr_flood = 10_000;
    });
    let mut server = PipedServer::start(&behaviour);
    assert_eq!(server.line().as_deref(), Some("Welcome!"));
    server.initialize();
    server.stdin = None;
    let mut errors = String::new();
    let mut stderr = server.child.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    assert_eq!(errors.len(), 10_000);
}

#[test]
fn a_server_can_exit_or_delay_at_start() {
    let behaviour = Behaviour::new().process(|process| {
        process.exit_at_start = Some(ExitAtStart {
            code: 7,
            stderr: "no licence".to_owned(),
        });
    });
    let mut server = PipedServer::start(&behaviour);
    let mut errors = String::new();
    let mut stderr = server.child.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    assert_eq!(errors, "no licence\n");
    assert_eq!(server.finish(), Some(7));

    let begun = Instant::now();
    let mut slow =
        PipedServer::start(&Behaviour::new().process(|process| process.start_delay_ms = 300));
    slow.initialize();
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_line_can_be_far_too_long() {
    let behaviour = Behaviour::new().process(|process| {
        process.oversized_line = Some(OversizedLine {
            bytes: 17 << 20,
            instead_of: "big".to_owned(),
        });
    });
    let mut server = PipedServer::start(&behaviour);
    server.initialize();
    server.send(r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"big"}}"#);
    assert_eq!(server.line().unwrap().len(), 17 << 20);
    assert_eq!(
        server.call("echo", &json!({ "text": "still here" })),
        "still here"
    );
}

#[test]
fn a_stubborn_server_survives_a_closed_stdin_and_sigterm() {
    let behaviour = Behaviour::new().process(|process| {
        process.ignore_stdin_close = true;
        process.ignore_sigterm = true;
    });
    let mut server = PipedServer::start(&behaviour);
    server.initialize();
    server.stdin = None;
    let pid = server.child.id();
    signal("TERM", pid);
    let is_gone = || !process_exists(pid);
    assert!(!wait_until(Duration::from_millis(300), is_gone));
}

#[test]
fn grandchildren_outlive_their_server() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    let behaviour = Behaviour::new().process(|process| {
        process.grandchildren = vec![Grandchild::Attached, Grandchild::Detached];
        process.pid_file = Some(pids.clone());
    });
    let mut server = PipedServer::start(&behaviour);
    server.initialize();
    let pids: Vec<u32> = std::fs::read_to_string(&pids)
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(pids[0], server.child.id());
    let attached = hermes_testkit::descendants(pids[0]);
    assert_eq!(attached, [pids[1]]);
    let late: u32 = server
        .call("spawn_grandchild", &json!({ "detach": true }))
        .parse()
        .unwrap();
    server.finish();
    for pid in [pids[1], pids[2], late] {
        assert!(process_exists(pid));
        signal("KILL", pid);
        assert!(wait_until(TIMEOUT, || !process_exists(pid)));
    }
}

#[test]
fn the_era_changes_between_two_starts() {
    let directory = tempfile::tempdir().unwrap();
    let behaviour = Behaviour::new().era(Era::Stateless).change_era(
        1,
        Era::Legacy,
        directory.path().join("starts"),
    );
    let is_refused = || {
        PipedServer::start(&behaviour)
            .initialize()
            .get("error")
            .is_some()
    };
    assert!(is_refused());
    assert!(!is_refused());
}

#[test]
fn the_environment_is_what_the_parent_gave() {
    let mut command = Command::new(binary("testkit-stdio"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    command.env_clear().env("ONLY", "this").current_dir(&path);
    let mut server = PipedServer::spawn(&mut command);
    server.initialize();
    assert_eq!(server.call("environment", &json!({})), r#"{"ONLY":"this"}"#);
    assert_eq!(server.call("cwd", &json!({})), path.display().to_string());
}

#[test]
fn the_fast_echo_serves_beside_the_script() {
    let mut command = Command::new(binary("testkit-stdio"));
    let mut server = PipedServer::spawn(command.arg("--echo"));
    server.initialize();
    assert_eq!(server.call("echo", &json!({ "text": "fast" })), "fast");
    assert_eq!(server.call("counter", &json!({})), "1");
}

#[test]
fn the_pipe_returns_every_line() {
    let mut pipe = PipedServer::spawn(&mut Command::new(binary("testkit-pipe")));
    pipe.send("anything");
    assert_eq!(pipe.line().as_deref(), Some("anything"));
    assert_eq!(pipe.finish(), Some(0));
}

#[test]
fn a_stateless_client_needs_no_handshake() {
    let mut server = PipedServer::start(&Behaviour::new().era(Era::Stateless));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "add", "arguments": { "a": 2, "b": 3 }, "_meta": meta });
    let answer = server.request("tools/call", &params);
    assert_eq!(answer["result"]["structuredContent"]["sum"], 5);
    assert_eq!(answer["result"]["resultType"], "complete");
}
