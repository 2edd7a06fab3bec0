//! Over HTTP: tokens, addresses, and our own host as the client.

use super::*;
use crate::harness::program::assert_private;

/// A bridge that listens on a free port.
struct HttpBridge {
    piped: BridgeProcess,
    url: String,
    /// What it said before.
    said: String,
}

fn start_http_bridge(hermes: &Hermes, flags: &[&str], environment: &[(&str, &str)]) -> HttpBridge {
    let mut command = hermes.command(&[&["mcp", "serve", "--http", "127.0.0.1:0"], flags].concat());
    command.envs(environment.iter().copied());
    let mut piped = BridgeProcess::start(command);
    let mut stderr = BufReader::new(piped.child.stderr.take().unwrap());
    let mut said = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended: {said}");
        if let Some(url) = line.trim().strip_prefix("listening on ") {
            let url = url.to_owned();
            return HttpBridge { piped, url, said };
        }
        said.push_str(&line);
    }
}

/// Calls a tool with our own host. Returns the code and what was printed.
fn call(hermes: &Hermes, listening: &HttpBridge, token: &str, era: &str) -> (i32, String) {
    let entry = json!({"mcp_servers": {"bridge": {
        "url": listening.url, "headers": {"Authorization": format!("Bearer {token}")}, "protocol": era,
    }}});
    hermes.home.write_config(&entry.to_string());
    let key = format!("session_key={KEY}");
    let ran = hermes.run(&["mcp", "call", "bridge.messages_read", "--arg", &key]);
    (ran.code, format!("{}{}", ran.stdout, ran.stderr))
}

#[test]
fn a_token_is_made_and_kept_and_needed() {
    let hermes = with_chat();
    let listening = start_http_bridge(&hermes, &[], &[]);
    let path = hermes.home.path().join("bridge/token");
    assert!(
        listening.said.contains(path.to_str().unwrap()),
        "{}",
        listening.said
    );
    assert_private(&path);
    let token = std::fs::read_to_string(&path).unwrap();
    let token = token.trim();
    assert_eq!(token.len(), 64);
    assert!(!listening.said.contains(token));
    for era in ["stateless", "legacy"] {
        let (code, text) = call(&hermes, &listening, token, era);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("hello"), "{text}");
    }
    assert_ne!(call(&hermes, &listening, "wrong", "legacy").0, 0);
    drop(listening);
    // The next one takes the same.
    let again = start_http_bridge(&hermes, &[], &[]);
    assert_eq!(call(&hermes, &again, token, "stateless").0, 0);
}

/// Greets the bridge with these headers. Returns the status, and what it says about authorization.
fn greet(listening: &HttpBridge, headers: &[(&str, &str)]) -> (u16, Option<String>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let greeting = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }});
    let mut request = reqwest::Client::new()
        .post(&listening.url)
        .header("Accept", "application/json, text/event-stream")
        .header("Content-Type", "application/json")
        .body(greeting.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = runtime.block_on(request.send()).unwrap();
    let challenge = answer.headers().get("www-authenticate");
    let challenge = challenge.map(|value| value.to_str().unwrap().to_owned());
    (answer.status().as_u16(), challenge)
}

#[test]
fn a_wrong_token_host_or_origin_is_refused_and_costs_nobody_else_anything() {
    let hermes = with_chat();
    hermes.home.write_config(
        "bridge:\n  http:\n    allowed_origins: [https://app.example.com]\n    allowed_hosts: [bridge.example.com]\n",
    );
    let listening = start_http_bridge(&hermes, &[], &[("HERMES_BRIDGE_TOKEN", "t0ken")]);
    let good = ("Authorization", "Bearer t0ken");
    for headers in [
        vec![],
        vec![("Authorization", "Bearer wrong")],
        vec![("Authorization", "Bearer t0ken2")],
        vec![("Authorization", "Basic t0ken")],
        vec![("Authorization", "Bearer ")],
    ] {
        let (status, challenge) = greet(&listening, &headers);
        assert_eq!(status, 401, "{headers:?}");
        let challenge = challenge.unwrap();
        assert!(challenge.starts_with("Bearer"), "{headers:?}: {challenge}");
    }
    for (name, value, expected) in [
        ("Origin", "https://evil.example.com", 403),
        ("Origin", "null", 403),
        ("Origin", "http://localhost.evil.example.com", 403),
        ("Origin", "http://localhost:3000", 200),
        ("Origin", "https://app.example.com", 200),
        ("Host", "evil.example.com", 403),
        ("Host", "bridge.example.com", 200),
    ] {
        let (status, _) = greet(&listening, &[good, (name, value)]);
        assert_eq!(status, expected, "{name}: {value}");
    }
    assert_eq!(greet(&listening, &[good]).0, 200);
}

#[test]
fn a_token_may_come_from_a_file_the_environment_or_the_configuration() {
    let hermes = with_chat();
    let file = hermes.home.write("my-token", "of-a-file\n");
    let file = file.to_str().unwrap().to_owned();
    let config = "bridge:\n  http:\n    token: of-the-configuration\n";
    for (flags, environment, token) in [
        (
            vec!["--token-file", &file],
            vec![("HERMES_BRIDGE_TOKEN", "x")],
            "of-a-file",
        ),
        (
            vec![],
            vec![("HERMES_BRIDGE_TOKEN", "of-the-environment")],
            "of-the-environment",
        ),
        (vec![], vec![], "of-the-configuration"),
    ] {
        hermes.home.write_config(config);
        let listening = start_http_bridge(&hermes, &flags, &environment);
        assert_eq!(listening.said, "");
        assert_eq!(
            call(&hermes, &listening, token, "stateless").0,
            0,
            "{token}"
        );
    }
    assert!(!hermes.home.path().join("bridge").exists());
    let empty = hermes.home.write("empty", "\n");
    let refused = hermes.run(&[
        "mcp",
        "serve",
        "--http",
        "127.0.0.1:0",
        "--token-file",
        empty.to_str().unwrap(),
    ]);
    assert!(refused.exits_with(2).stderr.contains("has no token"));
}

#[test]
fn other_machines_are_let_in_only_when_that_is_said() {
    let hermes = Hermes::new();
    let refused = hermes
        .run(&["mcp", "serve", "--http", "0.0.0.0:0"])
        .exits_with(2);
    assert!(refused.stderr.contains("--allow-remote"), "{refused:?}");
    let refused = hermes
        .run(&["mcp", "serve", "--http", "nonsense"])
        .exits_with(2);
    assert!(refused.stderr.contains("127.0.0.1:8765"), "{refused:?}");
    let mut command = hermes.command(&["mcp", "serve", "--http", "0.0.0.0:0", "--allow-remote"]);
    command.env("HERMES_BRIDGE_TOKEN", "t");
    let mut piped = BridgeProcess::start(command);
    let mut line = String::new();
    let mut stderr = BufReader::new(piped.child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("allowed_hosts"), "{line}");
}

#[test]
fn it_ends_at_a_signal_and_stdin_is_nothing_to_it() {
    let hermes = Hermes::new();
    let mut listening =
        start_http_bridge(&hermes, &["--read-only"], &[("HERMES_BRIDGE_TOKEN", "t")]);
    drop(listening.piped.stdin.take());
    let has_ended = || listening.piped.child.try_wait().unwrap().is_some();
    let has_ended = hermes_testkit::wait_until(Duration::from_millis(300), has_ended);
    assert!(!has_ended);
    let pid = rustix::process::Pid::from_child(&listening.piped.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let (time, code) = listening.piped.wait_for_exit();
    assert!(time < Duration::from_secs(20), "{time:?}");
    assert_eq!(code, Some(0));
}
