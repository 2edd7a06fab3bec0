//! The commands that tell about servers, with real servers and a real `hermes up`.

mod doctor;
mod logs;
mod processes;
mod status;

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
    time::Duration,
};

use hermes_testkit::{Behaviour, DiscoverBehaviour, Era, Grandchild, binary, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{
    program::{Hermes, entry},
    test_home::{TestHome, assert_gone, read_pids},
};

/// A server as it should be.
fn working_server() -> hermes_testkit::Behaviour {
    hermes_testkit::Behaviour::new()
}

#[test]
fn the_version_is_the_same_however_it_is_asked_for() {
    let hermes = Hermes::new();
    // The last way goes through all arguments, the others take the short cut.
    for args in [&["--version"][..], &["-V"], &["--safe-mode", "--version"]] {
        let ran = hermes.run(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
        assert_eq!(
            ran.stdout,
            concat!("hermes ", env!("CARGO_PKG_VERSION"), "\n"),
            "{args:?}"
        );
    }
}

// `hermes mcp test` of servers that take their time, or never come.

fn with_server(entry: &Value) -> Hermes {
    Hermes::with_config(&json!({"mcp_servers": {"kit": entry}}).to_string())
}

#[test]
fn of_half_a_million_tools_a_test_takes_as_many_as_the_maximum_and_says_so() {
    for era in [Era::Legacy, Era::Stateless] {
        let huge = Behaviour::new()
            .era(era)
            .tools([])
            .without_resources()
            .without_prompts()
            .lists(|lists| {
                lists.made_pages = 50;
                lists.page_size = Some(10_000);
            });
        let tested = with_server(&entry(&huge))
            .run(&["mcp", "test", "kit", "--json"])
            .ok()
            .json();
        let warnings = tested["warnings"].to_string();
        assert!(warnings.contains("more than 10000 tools"), "{warnings}");
    }
}

#[test]
fn a_failed_handshake_leaves_nothing_behind_when_the_command_ends() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let hopeless = Behaviour::new()
        .era(Era::Legacy)
        .discover(DiscoverBehaviour::Deaf)
        .process(|process| {
            process.ignore_stdin_close = true;
            process.ignore_sigterm = true;
            process.grandchildren = vec![Grandchild::Attached, Grandchild::Detached];
            process.pid_file = Some(file.clone());
        });
    let hermes = with_server(&entry(&hopeless));
    let ran = hermes
        .run(&["mcp", "test", "kit", "--timeout", "6"])
        .exits_with(1);
    assert!(ran.stderr.contains("no answer within 6 s"), "{ran:?}");
    let pids = read_pids(&file);
    assert_eq!(pids.len(), 6, "two processes with two children each");
    // At once: what outlives the command is ended a few seconds later in any case.
    assert_gone(&pids, Duration::ZERO);
}

#[test]
fn an_interrupted_command_leaves_nothing_behind_either() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let stubborn = Behaviour::new()
        .era(Era::Legacy)
        .discover(DiscoverBehaviour::Deaf)
        .process(|process| {
            process.ignore_stdin_close = true;
            process.ignore_sigterm = true;
            process.grandchildren = vec![Grandchild::Attached, Grandchild::Detached];
            process.pid_file = Some(file.clone());
        });
    let hermes = with_server(&entry(&stubborn));
    let mut command = hermes.command(&["mcp", "test", "kit"]);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let is_started = || file.exists() && read_pids(&file).len() == 3;
    assert!(wait_until(Duration::from_secs(30), is_started));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert_gone(&read_pids(&file), Duration::ZERO);
}

#[test]
fn a_package_runner_that_still_fetches_is_waited_for_and_that_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let runner = directory.path().join("npx");
    std::os::unix::fs::symlink(binary("testkit-stdio"), &runner).unwrap();
    let slow = Behaviour::new().process(|process| process.start_delay_ms = 4_000);
    let mut slow = entry(&slow);
    slow["command"] = json!(runner);
    slow["connect_timeout"] = json!(2);
    let hermes = with_server(&slow);
    // Whoever gives a limit means it.
    let ran = hermes
        .run(&["mcp", "test", "kit", "--timeout", "2"])
        .exits_with(1);
    assert!(ran.stderr.contains("no answer within 2 s"), "{ran:?}");
    let ran = hermes.run(&["mcp", "test", "kit"]).ok();
    assert!(ran.stdout.contains("ready kit"), "{ran:?}");
    let told = "kit: waiting for `npx` to fetch it and start it";
    assert_eq!(ran.stderr.matches(told).count(), 1, "{ran:?}");

    let words = ["mcp", "add", "new", "--yes", "--connect-timeout", "2", "--"];
    let (runner, behaviour) = (runner.to_str().unwrap(), slow["args"][0].as_str().unwrap());
    let hermes = Hermes::new();
    let ran = hermes
        .run(&[&words[..], &[runner, behaviour]].concat())
        .ok();
    let told = "new: waiting for `npx` to fetch it and start it";
    assert_eq!(ran.stderr.matches(told).count(), 1, "{ran:?}");
    assert_eq!(hermes.entry("new")["connect_timeout"], json!(2));
}

// `hermes mcp demo`.

#[test]
fn the_demo_is_a_server_like_any_other() {
    let home = TestHome::with_servers(&[(
        "demo",
        json!({"command": env!("CARGO_BIN_EXE_hermes"), "args": ["mcp", "demo"]}),
    )]);
    let sum = home.run(&[
        "mcp", "call", "demo.add", "--arg", "a=2", "--arg", "b=40", "--json",
    ]);
    assert_eq!(sum.code, 0, "{sum:?}");
    assert!(sum.stdout.contains("42"), "{sum:?}");
}

#[test]
fn the_demo_ends_when_its_client_goes() {
    let mut child = TestHome::fresh()
        .command(&["mcp", "demo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    writeln!(stdin, "{hello}").unwrap();
    let mut answer = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut answer).unwrap();
    assert!(answer.contains("hermes-demo"), "{answer}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}
