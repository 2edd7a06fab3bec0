//! The circuit breaker: after three broken calls in a row, calls to the server are refused for a minute.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hermes_mcp::{CallOptions, connection::breaker::BreakerState};
use hermes_testkit::{Behaviour, Era, Fault, FaultKind, HttpServer, TemporaryHome};
use serde_json::json;

use crate::{
    setup::Setup,
    transport::http::faults::{beside_neighbour, count},
};

/// Breaks the transport under some calls of `counter`, which promises nothing and so is not repeated.
fn breaking(era: Era, skip: u32, times: u32) -> Behaviour {
    Behaviour::new().era(era).http(|http| {
        let fault = Fault::on("counter", FaultKind::Status(502));
        http.faults.push(fault.after(skip).times(times));
    })
}

async fn break_three_times(setup: &Setup) {
    for _ in 0..3 {
        let error = setup.error("mcp_s_counter", json!({})).await;
        assert!(error.contains("HTTP 502"), "{error}");
    }
}

#[tokio::test]
async fn three_broken_calls_in_a_row_open_it_and_calls_fail_at_once() {
    for era in [Era::Legacy, Era::Stateless] {
        let (setup, server) = beside_neighbour(breaking(era, 0, 100), json!({})).await;
        break_three_times(&setup).await;
        assert_eq!(setup.status("s").breaker, BreakerState::Open);
        let sent = count(&server, "tools/call");
        for _ in 0..5 {
            let error = setup.error("mcp_s_echo", json!({ "text": "hi" })).await;
            assert!(error.contains("calls are refused for"), "{error}");
            let seconds = error
                .split_whitespace()
                .find_map(|word| word.parse::<u64>().ok());
            assert!((30..=60).contains(&seconds.unwrap()), "{error}");
        }
        assert_eq!(
            count(&server, "tools/call"),
            sent,
            "nothing is sent meanwhile"
        );
        setup.assert_ready("s");
        setup.assert_neighbour_is_well().await;
        assert_eq!(setup.status("neighbour").breaker, BreakerState::Closed);
    }
}

#[tokio::test]
async fn errors_of_tools_timeouts_and_interrupts_do_not_count() {
    for era in [Era::Legacy, Era::Stateless] {
        let (setup, server) = beside_neighbour(Behaviour::new().era(era), json!({})).await;
        for _ in 0..10 {
            setup.error("mcp_s_fail", json!({ "text": "no" })).await;
        }
        for _ in 0..4 {
            let arguments = json!({ "text": "no", "code": -32000 });
            setup.error("mcp_s_fail", arguments).await;
        }
        for _ in 0..4 {
            let options = CallOptions {
                timeout: Some(Duration::from_millis(50)),
                ..CallOptions::default()
            };
            setup
                .call_with("mcp_s_sleep", json!({ "ms": 60_000 }), &options)
                .await;
        }
        for _ in 0..4 {
            let options = CallOptions::default();
            let call = setup.call_with("mcp_s_sleep", json!({ "ms": 60_000 }), &options);
            let sent = count(&server, "tools/call");
            let interrupt = async {
                let is_sent = || count(&server, "tools/call") > sent;
                assert!(hermes_testkit::eventually(Duration::from_secs(30), is_sent).await);
                options.cancel.cancel();
            };
            tokio::join!(call, interrupt);
        }
        assert_eq!(setup.status("s").breaker, BreakerState::Closed, "{era:?}");
        let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }));
    }
}

#[tokio::test]
async fn a_success_in_between_starts_the_count_again() {
    // Every third call succeeds: two broken ones, then a good one.
    let mut behaviour = Behaviour::new();
    for skip in [0, 3, 6] {
        behaviour = behaviour.http(|http| {
            let fault = Fault::on("counter", FaultKind::Status(502));
            http.faults.push(fault.after(skip).times(2));
        });
    }
    let (setup, _server) = beside_neighbour(behaviour, json!({})).await;
    for _ in 0..3 {
        for _ in 0..2 {
            let error = setup.error("mcp_s_counter", json!({})).await;
            assert!(error.contains("HTTP 502"), "{error}");
        }
        let told = setup.call("mcp_s_counter", json!({})).await;
        assert!(told["result"].is_string(), "{told}");
    }
    assert_eq!(setup.status("s").breaker, BreakerState::Closed);
}

/// A clock that a test sets forward, and a server that is called by it.
async fn with_clock(times: u32) -> (Setup, HttpServer, Arc<AtomicU64>) {
    let server = HttpServer::start(breaking(Era::Stateless, 0, times));
    let servers = json!({ "s": { "url": server.url() } });
    let (start, ahead) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let seconds = Arc::clone(&ahead);
    let clock = move || start + Duration::from_secs(seconds.load(Ordering::Relaxed));
    let home = TemporaryHome::new();
    let setup = Setup::with_options(home, servers, |options| options.clock = Arc::new(clock));
    (setup.await, server, ahead)
}

#[tokio::test]
async fn after_a_minute_one_call_tries_and_its_success_closes_it() {
    let (setup, server, clock) = with_clock(3).await;
    break_three_times(&setup).await;
    assert_eq!(setup.status("s").breaker, BreakerState::Open);
    clock.store(59, Ordering::Relaxed);
    let error = setup.error("mcp_s_counter", json!({})).await;
    assert!(error.contains("calls are refused for"), "{error}");
    clock.store(61, Ordering::Relaxed);
    let sent = count(&server, "tools/call");
    let told = setup.call("mcp_s_counter", json!({})).await;
    assert_eq!(told, json!({ "result": "1" }));
    assert_eq!(count(&server, "tools/call"), sent + 1);
    assert_eq!(setup.status("s").breaker, BreakerState::Closed);
}

#[tokio::test]
async fn after_a_minute_a_failed_try_opens_it_for_another() {
    let (setup, server, clock) = with_clock(4).await;
    break_three_times(&setup).await;
    clock.store(61, Ordering::Relaxed);
    let error = setup.error("mcp_s_counter", json!({})).await;
    assert!(error.contains("HTTP 502"), "{error}");
    assert_eq!(setup.status("s").breaker, BreakerState::Open);
    let sent = count(&server, "tools/call");
    let error = setup.error("mcp_s_counter", json!({})).await;
    assert!(error.contains("calls are refused for"), "{error}");
    assert_eq!(count(&server, "tools/call"), sent);
}
