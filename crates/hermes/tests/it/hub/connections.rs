//! A Hub with a low open file limit, idle connections, and its log.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::Value;

use crate::{
    harness::test_home::{BackgroundProcess, TestHome, wait_until},
    hub::hub_process::HubProcess,
};

/// Longer than any answer takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A Hub that begins with these limits of open files.
fn with_files(limits: &str) -> (TestHome, BackgroundProcess, String) {
    let home = TestHome::fresh();
    fs::create_dir(home.path()).unwrap();
    let served = home.command(&["hub", "serve", "--set", "runtime=mock"]);
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")])
        .arg(served.get_program())
        .args(served.get_args())
        .env_clear()
        .stdin(std::process::Stdio::null());
    for (name, value) in served.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let mut process = BackgroundProcess::start(command);
    let line = process.wait_for("listens on http://");
    let address = line.rsplit("http://").next().unwrap().to_owned();
    process.wait_for("Isolation:");
    (home, process, address)
}

/// The first line of what is answered.
fn answer(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request =
        format!("GET /v1/healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Lets this process have so many connections.
fn raise_own_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

#[test]
fn connections_that_ask_for_nothing_do_not_close_a_hub_with_few_files() {
    raise_own_limit();
    let (_home, _process, address) = with_files("ulimit -n 1024");
    let silent: Vec<_> = (0..1100)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    assert_eq!(answer(&address), "HTTP/1.1 200 OK");
    drop(silent);
}

#[test]
fn a_hub_takes_as_many_files_as_the_system_lets_it() {
    let (_home, process, _) = with_files("ulimit -Sn 256; ulimit -Hn 2048");
    let limits = fs::read_to_string(format!("/proc/{}/limits", process.pid())).unwrap();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let files: Vec<_> = files.unwrap().split_whitespace().skip(3).take(2).collect();
    assert_eq!(files, ["2048", "2048"]);
}

#[test]
fn the_log_has_a_line_for_start_and_stop_for_each_agent_and_each_refused_request() {
    let mut hub = HubProcess::with_acme();
    hub.run(&["tenant", "start", "acme"]).ok();
    let state = |hub: &HubProcess| hub.json(&["tenant", "get", "acme"]);
    state(&hub);
    let agent = |hub: &HubProcess, wanted: &[&str]| {
        wait_until("the agent is there", || {
            let log = fs::read_to_string(hub.data().join("logs/hub.log")).unwrap();
            wanted.iter().all(|line| log.contains(line))
        });
    };
    agent(&hub, &["agent started"]);
    hub.run(&["tenant", "stop", "acme"]).ok();
    agent(&hub, &["agent stopped"]);
    let viewer = hub.home.beside("viewer.token");
    let viewer = viewer.to_str().unwrap();
    let create = ["token", "create", "viewer", "--role", "viewer", "--output"];
    hub.run(&[&create[..], &[viewer]].concat()).ok();
    let with_viewer = ["tenant", "block", "acme", "--yes", "--token-file", viewer];
    hub.run(&with_viewer).exits_with(4);
    fs::write(viewer, "hub_mgmt_wrong").unwrap();
    hub.run(&["tenant", "list", "--token-file", viewer])
        .exits_with(4);
    hub.process.signal(Signal::TERM);
    assert_eq!(hub.process.wait(), Some(0));
    let log = fs::read_to_string(hub.data().join("logs/hub.log")).unwrap();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    for (text, more) in [
        ("Hub starting", "\"version\""),
        ("agent started", "acme"),
        ("agent stopped", "acme"),
        ("request refused", "access:write"),
        ("request refused", "token_refused"),
        ("Hub stopping", ""),
        ("Hub stopped", ""),
    ] {
        let mut lines = lines.iter().map(Value::to_string);
        let is_told = lines.any(|line| line.contains(text) && line.contains(more));
        assert!(is_told, "{text}, {more}: {log}");
    }
    assert!(!log.contains("hub_mgmt_wrong"), "{log}");
}
