//! Several calls of one model answer.

use std::time::{Duration, Instant};

use hermes_mcp::{CallOptions, host::BatchCall};
use hermes_testkit::{Behaviour, TemporaryHome, recorded};
use serde_json::{Value, json};

use crate::setup::{RecordedServer, Setup, TransportKind, eventually, object, stdio, with};

fn parallel(entry: Value) -> Value {
    with(entry, json!({ "supports_parallel_tool_calls": true }))
}

fn call(name: &str, arguments: Value) -> BatchCall {
    BatchCall {
        name: name.into(),
        arguments: Ok(object(arguments)),
    }
}

async fn run(setup: &Setup, calls: Vec<BatchCall>) -> (Vec<Value>, Duration) {
    let registry = setup.host.registry();
    let began = Instant::now();
    let outcomes = setup
        .host
        .call_all(&registry, calls, &CallOptions::default())
        .await;
    let told = outcomes
        .iter()
        .map(|outcome| serde_json::from_str(&outcome.to_json()).unwrap())
        .collect();
    (told, began.elapsed())
}

fn sleeps(times: [u64; 3]) -> Vec<BatchCall> {
    times
        .map(|ms| call("mcp_s_sleep", json!({ "ms": ms })))
        .into()
}

fn slept(times: [u64; 3]) -> Vec<Value> {
    times
        .map(|ms| json!({ "result": format!("slept {ms} ms") }))
        .into()
}

#[tokio::test]
async fn calls_overlap_where_the_server_allows_it_and_keep_their_order() {
    for wire in [TransportKind::Stdio, TransportKind::Http] {
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, Behaviour::new(), home.path());
        let setup = Setup::in_home(home, json!({ "s": parallel(peer.entry) })).await;
        let times = [3003, 3002, 3001];
        let (told, took) = run(&setup, sleeps(times)).await;
        assert_eq!(told, slept(times));
        assert!(took < Duration::from_secs(9), "{wire:?}: {took:?}");
    }
}

#[tokio::test]
async fn calls_follow_each_other_where_it_does_not() {
    let setup = Setup::start(json!({ "s": stdio(&Behaviour::new()) })).await;
    let times = [603, 602, 601];
    let (told, took) = run(&setup, sleeps(times)).await;
    assert_eq!(told, slept(times));
    assert!(took >= Duration::from_millis(1800), "{took:?}");
}

#[tokio::test]
async fn calls_of_other_conversations_queue_behind_a_server_without_the_flag() {
    let setup = Setup::start(json!({
        "one_by_one": stdio(&Behaviour::new()),
        "together": parallel(stdio(&Behaviour::new())),
    }))
    .await;
    let sleep = async |server: &str| {
        let name = format!("mcp_{server}_sleep");
        setup.call(&name, json!({ "ms": 1500 })).await
    };
    let began = Instant::now();
    let slow = async {
        let name = "one_by_one";
        tokio::join!(sleep(name), sleep(name), sleep(name), sleep(name));
        began.elapsed()
    };
    let fast = async {
        let name = "together";
        tokio::join!(sleep(name), sleep(name), sleep(name), sleep(name));
        began.elapsed()
    };
    let (slow, fast) = tokio::join!(slow, fast);
    assert!(slow >= Duration::from_secs(6), "{slow:?}");
    assert!(
        fast < Duration::from_secs(6),
        "a server never waits for another: {fast:?}"
    );
}

#[tokio::test]
async fn unparsable_arguments_are_a_barrier_and_an_error_of_their_own() {
    let home = TemporaryHome::new();
    let peer = RecordedServer::new(TransportKind::Stdio, Behaviour::new(), home.path());
    let setup = Setup::in_home(home, json!({ "s": parallel(peer.entry.clone()) })).await;
    let unparsable = BatchCall {
        name: "mcp_s_echo".into(),
        arguments: Err("expected `}` at column 7".into()),
    };
    let calls = vec![
        call("mcp_s_sleep", json!({ "ms": 700 })),
        call("mcp_s_sleep", json!({ "ms": 600 })),
        unparsable,
        call("mcp_s_counter", json!({})),
    ];
    let (told, _) = run(&setup, calls).await;
    assert_eq!(told[0], json!({ "result": "slept 700 ms" }));
    assert_eq!(told[1], json!({ "result": "slept 600 ms" }));
    let error = told[2]["error"].as_str().unwrap();
    assert!(
        error.contains("mcp_s_echo") && error.contains("column 7"),
        "{error}"
    );
    // Had the last one not waited, the server would have counted it before the others came back.
    assert_eq!(told[3], json!({ "result": "3" }));
    assert_eq!(recorded(&peer.record, "tools/call").len(), 3);
}

#[tokio::test]
async fn a_barrier_is_waited_for() {
    let home = TemporaryHome::new();
    let peer = RecordedServer::new(TransportKind::Stdio, Behaviour::new(), home.path());
    let setup = Setup::in_home(
        home,
        json!({ "s": parallel(peer.entry.clone()), "single": stdio(&Behaviour::new()) }),
    )
    .await;
    let calls = vec![
        call("mcp_s_sleep", json!({ "ms": 10 })),
        call("mcp_single_sleep", json!({ "ms": 1000 })),
        call("mcp_s_echo", json!({ "text": "after" })),
    ];
    let began = Instant::now();
    let watch = async {
        eventually("the last call arrives", || !peer.calls("echo").is_empty()).await;
        began.elapsed()
    };
    let ((told, _), waited) = tokio::join!(run(&setup, calls), watch);
    assert_eq!(told[2], json!({ "result": "after" }));
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
}

#[tokio::test]
async fn a_failing_call_of_a_batch_leaves_the_others_alone() {
    let setup = Setup::start(json!({
        "s": parallel(stdio(&Behaviour::new())),
        "t": parallel(stdio(&Behaviour::new())),
    }))
    .await;
    let calls = vec![
        call("mcp_s_echo", json!({ "text": "one" })),
        call("mcp_s_fail", json!({ "text": "no" })),
        call("mcp_nobody_echo", json!({})),
        call("mcp_t_crash", json!({})),
        call("mcp_s_echo", json!({ "text": "two" })),
    ];
    let (told, _) = run(&setup, calls).await;
    assert_eq!(told[0], json!({ "result": "one" }));
    assert_eq!(told[1], json!({ "error": "no" }));
    assert_eq!(told[2], json!({ "error": "Unknown tool: mcp_nobody_echo" }));
    assert!(
        told[3]["error"].as_str().unwrap().contains("lost"),
        "{}",
        told[3]
    );
    assert_eq!(told[4], json!({ "result": "two" }));
}
