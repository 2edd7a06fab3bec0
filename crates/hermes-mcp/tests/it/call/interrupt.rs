//! Calls that the user stops.

use std::time::{Duration, Instant};

use hermes_mcp::CallOptions;
use hermes_testkit::{Behaviour, Era, TemporaryHome};
use serde_json::json;
use tokio::task::JoinSet;

use crate::setup::{
    ALL_TRANSPORTS, RecordedServer, Setup, TransportKind, eventually, object, with, with_neighbour,
};

/// What the contract allows. A busy machine may take longer now and then, so the best of several counts.
const PROMPT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn an_interrupt_returns_at_once_and_tells_the_server() {
    for (wire, era) in ALL_TRANSPORTS {
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, Behaviour::new().era(era), home.path());
        let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
        let mut fastest = Duration::MAX;
        for round in 1..=3 {
            let options = CallOptions::default();
            let call = setup.call_with("mcp_s_sleep", json!({ "ms": 600_000 }), &options);
            let interrupt = async {
                eventually("the call arrives", || peer.calls("sleep").len() == round).await;
                options.cancel.cancel();
                Instant::now()
            };
            let ((told, returned), interrupted) =
                tokio::join!(async { (call.await, Instant::now()) }, interrupt);
            assert_eq!(told, json!({ "error": "interrupted by the user" }));
            fastest = fastest.min(returned.saturating_duration_since(interrupted));
        }
        assert!(fastest < PROMPT, "{wire:?}, {era:?}: {fastest:?}");
        if (wire, era) == (TransportKind::Http, Era::Stateless) {
            let left = || {
                let requests = peer.server.as_ref().unwrap().requests();
                let calls = requests
                    .iter()
                    .filter(|request| request.abandoned && request.rpc_method() == "tools/call");
                calls.count() == 3
            };
            eventually("we leave", left).await;
        } else {
            eventually("each is cancelled", || peer.cancelled().len() >= 3).await;
        }
        let told = setup.call("mcp_s_echo", json!({ "text": "next" })).await;
        assert_eq!(told, json!({ "result": "next" }));
        let calls = setup.status("s").calls;
        assert_eq!((calls.total, calls.errors, calls.cancelled), (4, 0, 3));
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_too() {
    for (wire, era) in ALL_TRANSPORTS {
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, Behaviour::new().era(era), home.path());
        let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
        let mut tasks = JoinSet::new();
        let host = setup.host.clone();
        tasks.spawn(async move {
            let arguments = object(json!({ "ms": 600_000 }));
            host.call("mcp_s_sleep", arguments, &CallOptions::default())
                .await
        });
        eventually("the call arrives", || peer.calls("sleep").len() == 1).await;
        tasks.abort_all();
        let taken_back = || match &peer.server {
            Some(server) if era == Era::Stateless => {
                let requests = server.requests();
                requests
                    .iter()
                    .any(|request| request.abandoned && request.rpc_method() == "tools/call")
            }
            _ => peer.cancelled().contains(&peer.calls("sleep")[0]["id"]),
        };
        eventually("the call is taken back", taken_back).await;
        let told = setup.call("mcp_s_echo", json!({ "text": "next" })).await;
        assert_eq!(told, json!({ "result": "next" }), "{wire:?}, {era:?}");
        assert_eq!(setup.status("s").in_flight, 0);
    }
}

#[tokio::test]
async fn a_queued_call_can_be_interrupted_and_is_never_sent() {
    let home = TemporaryHome::new();
    let peer = RecordedServer::new(TransportKind::Stdio, Behaviour::new(), home.path());
    let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
    let queued = CallOptions::default();
    let first = setup.call("mcp_s_sleep", json!({ "ms": 1500 }));
    let second = async {
        eventually("the first is under way", || peer.calls("sleep").len() == 1).await;
        let call = setup.call_with("mcp_s_echo", json!({ "text": "never" }), &queued);
        let interrupt = async { queued.cancel.cancel() };
        tokio::join!(call, interrupt).0
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first, json!({ "result": "slept 1500 ms" }));
    assert_eq!(second, json!({ "error": "interrupted by the user" }));
    setup.call("mcp_s_echo", json!({ "text": "later" })).await;
    let sent = peer.calls("echo");
    assert_eq!(sent.len(), 1, "{sent:?}");
}

#[tokio::test]
async fn a_call_that_waits_for_its_server_can_be_interrupted() {
    let home = TemporaryHome::new();
    let behaviour = Behaviour::new();
    let peer = RecordedServer::new(TransportKind::Stdio, behaviour, home.path());
    let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
    // After a crash the next attempt is a second away.
    setup.call("mcp_s_crash", json!({})).await;
    let options = CallOptions::default();
    options.cancel.cancel();
    let began = Instant::now();
    let told = setup
        .call_with("mcp_s_echo", json!({ "text": "hi" }), &options)
        .await;
    assert_eq!(told, json!({ "error": "interrupted by the user" }));
    // Somebody who waited for the server would have been answered by it.
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_server_that_keeps_us_waiting_for_its_own_state_can_be_interrupted() {
    let home = TemporaryHome::new();
    let behaviour = Behaviour::new().era(Era::Stateless);
    let peer = RecordedServer::new(TransportKind::Stdio, behaviour, home.path());
    let setup = Setup::in_home(home, with_neighbour(json!({ "s": peer.entry }))).await;
    // Nothing is asked: the client is to come back with the state, again and again, ever more slowly.
    let result = json!({ "resultType": "input_required", "requestState": "wait" });
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        let options = CallOptions::default();
        let arguments = json!({ "result": result });
        let call = setup.call_with("mcp_s_content", arguments, &options);
        let before = peer.calls("content").len();
        let interrupt = async {
            let rounds = || peer.calls("content").len() - before;
            eventually("several rounds", || rounds() >= 7).await;
            options.cancel.cancel();
            Instant::now()
        };
        let ((told, returned), interrupted) =
            tokio::join!(async { (call.await, Instant::now()) }, interrupt);
        assert_eq!(told, json!({ "error": "interrupted by the user" }));
        fastest = fastest.min(returned.saturating_duration_since(interrupted));
        // Only a busy machine needs another attempt.
        if fastest < Duration::from_millis(800) {
            break;
        }
    }
    assert!(fastest < Duration::from_millis(800), "{fastest:?}");
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn an_interrupt_stops_only_its_own_call() {
    let home = TemporaryHome::new();
    let peer = RecordedServer::new(TransportKind::Stdio, Behaviour::new(), home.path());
    let entry = with(
        peer.entry.clone(),
        json!({ "supports_parallel_tool_calls": true }),
    );
    let setup = Setup::in_home(home, json!({ "s": entry })).await;
    let options = CallOptions::default();
    let stopped = setup.call_with("mcp_s_sleep", json!({ "ms": 600_000 }), &options);
    let other = setup.call("mcp_s_sleep", json!({ "ms": 1000 }));
    let interrupt = async {
        eventually("both are under way", || peer.calls("sleep").len() == 2).await;
        options.cancel.cancel();
    };
    let (stopped, other, ()) = tokio::join!(stopped, other, interrupt);
    assert_eq!(stopped, json!({ "error": "interrupted by the user" }));
    assert_eq!(other, json!({ "result": "slept 1000 ms" }));
}
