//! The clock of a call: timeouts, progress, late replies.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use hermes_mcp::{CallOptions, Progress};
use hermes_testkit::{Behaviour, Era, OnCancel, TemporaryHome};
use serde_json::{Value, json};

use crate::setup::{
    RecordedServer, Setup, TIMEOUT, TransportKind, eventually, over_every_transport, stdio, with,
    with_neighbour,
};

fn allowing(timeout: Duration) -> CallOptions {
    CallOptions {
        timeout: Some(timeout),
        ..CallOptions::default()
    }
}

fn id_of(call: &Value) -> Value {
    call["id"].clone()
}

#[tokio::test]
async fn a_timeout_states_its_seconds_tells_the_server_and_leaves_the_connection_alone() {
    over_every_transport(async |wire, era| {
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, Behaviour::new().era(era), home.path());
        let entry = with(peer.entry.clone(), json!({ "timeout": 1.5 }));
        let setup = Setup::in_home(home, json!({ "s": entry })).await;
        let began = Instant::now();
        let error = setup.error("mcp_s_sleep", json!({ "ms": 600_000 })).await;
        assert!(began.elapsed() >= Duration::from_millis(1500));
        assert!(error.contains("timed out after "), "{error}");
        assert!(error.contains("allowed: 1.5 s"), "{error}");

        eventually("the server hears of it", || was_taken_back(&peer, "sleep")).await;
        let arguments = json!({ "text": "next" });
        let told = setup
            .call_with("mcp_s_echo", arguments, &allowing(TIMEOUT))
            .await;
        assert_eq!(told, json!({ "result": "next" }), "{wire:?}, {era:?}");
        let status = setup.status("s");
        setup.assert_ready("s");
        assert_eq!((status.restarts, status.in_flight), (0, 0));
        let calls = status.calls;
        assert_eq!((calls.total, calls.errors, calls.timeouts), (2, 1, 1));
    })
    .await;
}

/// Whether the first call of a tool was cancelled: by a notification, or over stateless HTTP by leaving.
fn was_taken_back(peer: &RecordedServer, tool: &str) -> bool {
    let Some(call) = peer.calls(tool).first().map(id_of) else {
        return false;
    };
    let left = peer.server.as_ref().is_some_and(|server| {
        server
            .requests()
            .iter()
            .any(|request| request.abandoned && request.message()["params"]["name"] == tool)
    });
    peer.cancelled().contains(&call) || left
}

#[tokio::test]
async fn a_legacy_server_gets_a_notification_and_a_stateless_one_over_http_sees_us_leave() {
    for (wire, era, by_notification) in [
        (TransportKind::Stdio, Era::Legacy, true),
        (TransportKind::Stdio, Era::Stateless, true),
        (TransportKind::Http, Era::Legacy, true),
        (TransportKind::Http, Era::Stateless, false),
    ] {
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, Behaviour::new().era(era), home.path());
        let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
        let options = allowing(Duration::from_secs(1));
        setup
            .call_with("mcp_s_sleep", json!({ "ms": 600_000 }), &options)
            .await;
        let is_told = || {
            let calls = peer.calls("sleep");
            let id = calls.first().map(id_of);
            id.is_some_and(|id| peer.cancelled().contains(&id))
        };
        if by_notification {
            // Over HTTP it may see us leave before.
            eventually("the server is told", is_told).await;
        } else {
            eventually("it sees us leave", || was_taken_back(&peer, "sleep")).await;
            setup.call("mcp_s_echo", json!({ "text": "next" })).await;
            assert!(!is_told(), "{wire:?}, {era:?}");
        }
    }
}

#[tokio::test]
async fn a_late_reply_is_dropped_and_confuses_no_other_call() {
    for on_cancel in [OnCancel::LateReply, OnCancel::Ignore] {
        over_every_transport(async |wire, era| {
            let home = TemporaryHome::new();
            let behaviour = Behaviour::new()
                .era(era)
                .calls(|calls| calls.on_cancel = on_cancel);
            let peer = RecordedServer::new(wire, behaviour, home.path());
            let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
            let options = allowing(Duration::from_millis(100));
            for _ in 0..3 {
                setup
                    .call_with("mcp_s_sleep", json!({ "ms": 300 }), &options)
                    .await;
            }
            // Long enough for every late reply to arrive meanwhile.
            let told = setup.call("mcp_s_sleep", json!({ "ms": 700 })).await;
            assert_eq!(told, json!({ "result": "slept 700 ms" }));
            for number in 0..5 {
                let text = format!("echo {number}");
                let told = setup.call("mcp_s_echo", json!({ "text": text })).await;
                assert_eq!(told, json!({ "result": text }), "{wire:?}, {era:?}");
            }
            setup.assert_ready("s");
        })
        .await;
    }
}

#[tokio::test]
async fn progress_restarts_the_clock_and_reaches_the_caller() {
    over_every_transport(async |wire, era| {
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, Behaviour::new().era(era), home.path());
        let entry = with(peer.entry, json!({ "timeout": 2 }));
        let setup = Setup::in_home(home, json!({ "s": entry })).await;
        let seen: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let sink = seen.clone();
        let options = CallOptions {
            on_progress: Some(Arc::new(move |progress| {
                sink.lock().unwrap().push(progress.clone());
            })),
            ..CallOptions::default()
        };
        let arguments = json!({ "steps": 15, "interval_ms": 200 });
        let began = Instant::now();
        let told = setup.call_with("mcp_s_progress", arguments, &options).await;
        assert_eq!(told, json!({ "result": "15 steps" }), "{wire:?}, {era:?}");
        assert!(
            began.elapsed() > Duration::from_secs(2),
            "longer than the timeout"
        );
        let seen = seen.lock().unwrap();
        let steps: Vec<f64> = seen.iter().map(|progress| progress.progress).collect();
        assert!(steps.is_sorted() && steps.len() > 5, "{steps:?}");
        assert_eq!(seen[0].total, Some(15.0));
        assert_eq!(seen[0].message.as_deref(), Some("step 1"));
    })
    .await;
}

#[tokio::test]
async fn progress_for_ever_ends_at_ten_times_the_timeout() {
    let home = TemporaryHome::new();
    let behaviour = Behaviour::new().calls(|calls| calls.progress_forever = true);
    let peer = RecordedServer::new(TransportKind::Stdio, behaviour, home.path());
    let entry = with(peer.entry.clone(), json!({ "timeout": 1 }));
    let setup = Setup::in_home(home, with_neighbour(json!({ "s": entry }))).await;
    let began = Instant::now();
    let error = setup
        .error("mcp_s_progress", json!({ "interval_ms": 50 }))
        .await;
    assert!(began.elapsed() >= Duration::from_secs(10));
    assert!(error.contains("allowed: 10 s"), "{error}");
    eventually("it is cancelled", || !peer.cancelled().is_empty()).await;
    setup.assert_ready("s");
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn progress_of_one_call_does_not_keep_another_alive() {
    let entry = with(
        stdio(&Behaviour::new()),
        json!({ "timeout": 2, "supports_parallel_tool_calls": true }),
    );
    let setup = Setup::start(json!({ "s": entry })).await;
    let (busy, silent) = tokio::join!(
        setup.call("mcp_s_progress", json!({ "steps": 20, "interval_ms": 150 })),
        setup.call("mcp_s_sleep", json!({ "ms": 30_000 })),
    );
    assert_eq!(busy, json!({ "result": "20 steps" }));
    assert!(silent["error"].as_str().unwrap().contains("allowed: 2 s"));
}

#[tokio::test]
async fn the_clock_does_not_run_while_a_call_queues() {
    let entry = with(stdio(&Behaviour::new()), json!({ "timeout": 3 }));
    let setup = Setup::start(json!({ "s": entry })).await;
    let call = || setup.call("mcp_s_sleep", json!({ "ms": 900 }));
    let began = Instant::now();
    let (one, two, three, four) = tokio::join!(call(), call(), call(), call());
    for told in [one, two, three, four] {
        assert_eq!(told, json!({ "result": "slept 900 ms" }));
    }
    assert!(began.elapsed() >= Duration::from_millis(3600), "one by one");
}
