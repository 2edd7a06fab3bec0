//! Its life: how it begins, what it prints, how it ends.

use std::{
    io::Read,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
};

use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// Beyond the two seconds it may take, for a machine that is busy.
const END: Duration = Duration::from_secs(20);
/// Somebody who owns nothing.
const NOBODY: u32 = 65534;

fn signal(piped: &BridgeProcess, signal: Signal) {
    let pid = Pid::from_child(&piped.child);
    kill_process(pid, signal).unwrap();
}

#[test]
fn it_answers_on_stdout_and_prints_nothing_else_there() {
    let hermes = with_chat();
    let mut piped = BridgeProcess::open(&hermes, &["--verbose", "--accept-hooks"]);
    piped.call(1, "messages_read", &json!({"session_key": KEY}));
    let answer = piped.receive();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(answer["result"]["isError"], false);
    assert_eq!(answer["result"]["structuredContent"]["result"], text);
    assert_eq!(
        serde_json::from_str::<Value>(text).unwrap()["messages"][0]["content"],
        "hello"
    );
    piped.send(&json!("no message"));
    piped.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "events_poll", "arguments": []}}));
    piped.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "no/such"}));
    drop(piped.stdin.take());
    let mut rest = String::new();
    piped.stdout.read_to_string(&mut rest).unwrap();
    for line in rest.lines() {
        let message: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0");
        assert!(message["error"].is_object(), "{message}");
        if message["id"] == 2 {
            assert_eq!(message["error"]["code"], -32602);
        }
        if message["id"] == 3 {
            assert_eq!(message["error"]["code"], -32601);
        }
    }
    assert_eq!(piped.wait_for_exit().1, Some(0));
    let mut debug = String::new();
    piped
        .child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut debug)
        .unwrap();
    assert!(debug.contains("DEBUG"), "{debug}");
}

#[test]
fn every_revision_that_begins_with_a_greeting_is_spoken() {
    let hermes = with_chat();
    for (asked, spoken) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut piped = BridgeProcess::start(hermes.command(&["mcp", "serve"]));
        piped.send(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
            }}),
        );
        let greeting = piped.receive()["result"].clone();
        assert_eq!(greeting["protocolVersion"], spoken, "{asked}: {greeting}");
        assert_eq!(greeting["capabilities"]["tools"]["listChanged"], false);
        assert_eq!(
            greeting["serverInfo"]["version"],
            env!("CARGO_PKG_VERSION"),
            "{greeting}"
        );
        assert!(greeting["instructions"].is_string(), "{greeting}");
        piped.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let read = piped.call_tool("messages_read", &json!({"session_key": KEY}));
        assert_eq!(read["count"], 1, "{asked}: {read}");
    }
}

#[test]
fn with_json_a_failure_still_goes_to_stderr() {
    let hermes = Hermes::with_config("mcp_servers: [broken\n");
    let ran = hermes.run(&["mcp", "serve", "--json"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("error: "), "{ran:?}");
    let ran = hermes.run(&["mcp", "serve", "--json", "--no-such-flag"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("--no-such-flag"), "{ran:?}");
    // Nobody speaks a protocol here.
    let ran = hermes.run(&["mcp", "serve", "--json", "--install", "no-such-client"]);
    ran.refused(2, "usage");
}

#[test]
fn it_needs_no_home_and_makes_no_database_of_conversations() {
    let hermes = Hermes::new();
    let mut piped = BridgeProcess::open(&hermes, &[]);
    piped.call(1, "conversations_list", &json!({}));
    assert!(piped.receive().to_string().contains("\\\"count\\\": 0"));
    piped.call(2, "events_poll", &json!({}));
    piped.receive();
    drop(piped.stdin.take());
    assert_eq!(piped.wait_for_exit().1, Some(0));
    assert!(!hermes.home.path().join("state.db").exists());
    let log = hermes.home.path().join("runtime.db");
    assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn in_a_home_that_cannot_be_written_it_warns_once_and_keeps_events_in_memory() {
    let hermes = with_chat();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Somebody else can write: its files are there already.
    let store = runtime.block_on(async {
        let store = Store::open(&Home::at(hermes.home.path()), Access::ReadWrite).await;
        let store = store.unwrap();
        say(&store, "before").await;
        store
    });
    let mut command = hermes.command(&["mcp", "serve"]);
    if rustix::process::geteuid().is_root() {
        // Nothing is forbidden to root.
        command.uid(NOBODY);
        for file in ["state.db", "state.db-wal", "state.db-shm"] {
            set_mode(&hermes.home.path().join(file), 0o444);
        }
        let mut probe = Command::new(env!("CARGO_BIN_EXE_hermes"));
        if probe.uid(NOBODY).arg("--version").output().is_err() {
            println!("SKIPPED: only root can run this program, and root can write everywhere");
            return;
        }
    }
    set_mode(hermes.home.path(), 0o555);
    let mut piped = BridgeProcess::initialize(command);
    let polled = piped.call_tool("events_poll", &json!({}));
    assert_eq!(polled["events"], json!([]), "{polled}");
    runtime.block_on(say(&store, "after"));
    let waited = piped.call_tool("events_wait", &json!({"timeout_ms": 30_000}));
    assert_eq!(waited["event"]["content"], "after", "{waited}");
    let open = piped.call_tool("permissions_list_open", &json!({}));
    let error = open["error"].as_str().unwrap();
    assert!(error.starts_with("Approvals unavailable: "), "{error}");
    drop(piped.stdin.take());
    assert_eq!(piped.wait_for_exit().1, Some(0));
    let mut warnings = String::new();
    let mut stderr = piped.child.stderr.take().unwrap();
    stderr.read_to_string(&mut warnings).unwrap();
    assert_eq!(warnings.matches("WARN").count(), 1, "{warnings}");
    assert!(warnings.contains("in memory only"), "{warnings}");
    assert!(!hermes.home.path().join("runtime.db").exists());
    set_mode(hermes.home.path(), 0o755);
    runtime.block_on(store.close());
}

async fn say(store: &Store, text: &str) {
    let id = SessionId::parse("20260101_010101_0badcafe").unwrap();
    let message = NewMessage::new(Role::User, text);
    store.append(&id, &message).await.unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn it_ends_in_the_middle_of_a_wait_when_its_client_goes() {
    let hermes = with_chat();
    let mut piped = BridgeProcess::open(&hermes, &[]);
    for id in 1..=5 {
        piped.call(id, "events_wait", &json!({"timeout_ms": 300_000}));
    }
    piped.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
    assert_eq!(piped.receive()["id"], 9);
    drop(piped.stdin.take());
    let (time, code) = piped.wait_for_exit();
    assert!(time < END, "{time:?}");
    assert_eq!(code, Some(0));
}

#[test]
fn it_ends_at_a_signal_whatever_is_pending() {
    let hermes = with_chat();
    for name in [Signal::TERM, Signal::INT] {
        let mut piped = BridgeProcess::open(&hermes, &[]);
        piped.call(1, "events_wait", &json!({"timeout_ms": 300_000}));
        piped.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
        assert_eq!(piped.receive()["id"], 9);
        signal(&piped, name);
        let (time, code) = piped.wait_for_exit();
        assert!(time < END, "{name:?}: {time:?}");
        assert_eq!(code, Some(0));
    }
}

#[test]
fn a_client_that_never_reads_costs_no_memory_and_does_not_keep_it() {
    let hermes = with_chat();
    let mut piped = BridgeProcess::open(&hermes, &[]);
    let mut stdin = piped.stdin.take().unwrap();
    // Written until the pipe is full: the requests beyond that wait on our side.
    let flood = std::thread::spawn(move || {
        for id in 1..200_000 {
            let list = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
            if writeln!(stdin, "{list}").is_err() {
                break;
            }
        }
    });
    let is_over = hermes_testkit::wait_until(Duration::from_secs(1), || flood.is_finished());
    assert!(!is_over, "everything was taken in");
    assert_small(&piped);
    signal(&piped, Signal::TERM);
    let (time, _) = piped.wait_for_exit();
    assert!(time < END, "{time:?}");
    flood.join().unwrap();
}

/// It takes no more memory than without anything to do. Without optimisation the program alone has several times what
/// it has with it.
#[track_caller]
fn assert_small(piped: &BridgeProcess) {
    let memory = std::fs::read_to_string(format!("/proc/{}/status", piped.child.id())).unwrap();
    let resident = memory
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kilobytes: u64 = resident.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kilobytes < 150_000, "{resident}");
}

#[test]
fn a_client_that_uses_one_id_for_everything_costs_no_memory() {
    let hermes = with_chat();
    let mut piped = BridgeProcess::open(&hermes, &[]);
    let mut stdin = piped.stdin.take().unwrap();
    let flood = std::thread::spawn(move || {
        let mut lines = String::new();
        for (tool, arguments) in [
            ("messages_read", json!({"session_key": KEY})),
            ("events_wait", json!({"timeout_ms": 300_000})),
            ("conversations_list", json!({})),
        ] {
            let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                "params": {"name": tool, "arguments": arguments}});
            lines.push_str(&call.to_string());
            lines.push('\n');
        }
        while stdin.write_all(lines.as_bytes()).is_ok() {}
    });
    // This client does read: what piles up is not what it leaves lying.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        assert_eq!(piped.receive()["id"], 7);
    }
    assert_small(&piped);
    signal(&piped, Signal::TERM);
    let (time, _) = piped.wait_for_exit();
    assert!(time < END, "{time:?}");
    flood.join().unwrap();
}

#[test]
fn it_ends_when_a_client_goes_that_never_read() {
    let hermes = with_chat();
    let mut piped = BridgeProcess::open(&hermes, &[]);
    let mut stdin = piped.stdin.take().unwrap();
    // More answers than a pipe holds, and fewer requests.
    for id in 1..300 {
        let list = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
        writeln!(stdin, "{list}").unwrap();
    }
    let answers = piped.stdout.get_ref();
    let is_full = || rustix::io::ioctl_fionread(answers).unwrap() > 32 * 1024;
    assert!(hermes_testkit::wait_until(TIMEOUT, is_full));
    drop(stdin);
    let (time, _) = piped.wait_for_exit();
    assert!(time < END, "{time:?}");
}

#[test]
fn our_own_host_is_a_client_in_both_eras() {
    let hermes = with_chat();
    for era in ["stateless", "legacy"] {
        let entry = json!({"mcp_servers": {"bridge": {
            "command": env!("CARGO_BIN_EXE_hermes"), "args": ["mcp", "serve"], "protocol": era,
            "env": {"HERMES_HOME": hermes.home.path()},
        }}});
        hermes.home.write_config(&entry.to_string());
        let listed = hermes.run(&["mcp", "tools", "bridge", "--json"]).ok();
        assert_eq!(
            listed.json()["tools"].as_array().map(Vec::len),
            Some(10),
            "{era}: {listed:?}"
        );
        let called = hermes
            .run(&[
                "mcp",
                "call",
                "bridge.messages_read",
                "--arg",
                &format!("session_key={KEY}"),
            ])
            .ok();
        assert!(called.stdout.contains("hello"), "{era}: {called:?}");
    }
}
