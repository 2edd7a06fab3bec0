//! Replies that are not usable: web pages, far too large ones, and those that break off.

use std::time::{Duration, Instant};

use hermes_mcp::LinkStatus;
use hermes_testkit::{Behaviour, Era, Fault, FaultKind, HttpTransport, ReplyFormat};
use serde_json::json;

use super::{beside_neighbour, count};
use crate::setup::Growth;

#[tokio::test]
async fn a_web_page_is_recognised() {
    let behaviour = Behaviour::new().http(|http| http.faults.push(Fault::always(FaultKind::Html)));
    for keys in [json!({}), json!({ "skip_preflight": true })] {
        let (setup, _server) = beside_neighbour(behaviour.clone(), keys.clone()).await;
        let status = setup.status("s");
        assert_eq!(status.status, LinkStatus::Reconnecting, "{keys}");
        let error = status.error.unwrap();
        assert!(error.contains("looks like a web page"), "{keys}: {error}");
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn a_web_page_instead_of_an_answer_fails_that_call_only() {
    for era in [Era::Legacy, Era::Stateless] {
        let behaviour = Behaviour::new()
            .era(era)
            .http(|http| http.faults.push(Fault::on("counter", FaultKind::Html)));
        let (setup, _server) = beside_neighbour(behaviour, json!({})).await;
        let error = setup.error("mcp_s_counter", json!({})).await;
        assert!(error.contains("web page"), "{era:?}: {error}");
        let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }));
        setup.assert_ready("s");
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn an_answer_nested_far_too_deep_fails_its_call_at_once_and_names_the_cause() {
    let wires = [
        (HttpTransport::Streamable, ReplyFormat::Json),
        (HttpTransport::Streamable, ReplyFormat::Sse),
        (HttpTransport::Sse, ReplyFormat::Sse),
    ];
    for (transport, reply) in wires {
        let behaviour = Behaviour::new()
            .era(Era::Legacy)
            .calls(|calls| calls.nested_levels = Some(200_000))
            .http(|http| {
                http.transport = transport;
                http.reply = reply;
            });
        let keys = match transport {
            HttpTransport::Streamable => json!({}),
            HttpTransport::Sse => json!({ "transport": "sse" }),
        };
        let (setup, _server) = beside_neighbour(behaviour, keys).await;
        let error = setup.error_at_once("mcp_s_counter", json!({})).await;
        let context = format!("{transport:?}, {reply:?}");
        assert!(error.contains("levels deep"), "{context}: {error}");
        setup.assert_ready("s");
        assert_eq!(setup.status("s").restarts, 0, "{context}");
    }
}

#[tokio::test]
async fn a_reply_over_the_cap_is_an_error_that_names_it_and_memory_stays_bounded() {
    for era in [Era::Legacy, Era::Stateless] {
        for reply in [ReplyFormat::Json, ReplyFormat::Sse] {
            let behaviour = Behaviour::new().era(era).http(|http| {
                http.reply = reply;
                let trouble = FaultKind::Oversized(1 << 30);
                http.faults.push(Fault::on("counter", trouble));
            });
            let (setup, server) = beside_neighbour(behaviour, json!({})).await;
            let growth = Growth::watch();
            let error = setup.error("mcp_s_counter", json!({})).await;
            let context = format!("{era:?}, {reply:?}");
            assert!(error.contains("64 MiB"), "{context}: {error}");
            // The buffer doubles on its way to the cap, and old and new exist together while it grows.
            let peak = growth.peak();
            assert!(peak < 260, "{context}: {peak} MiB");
            assert_eq!(count(&server, "tools/call"), 1, "{context}");
            let told = setup.call("mcp_s_echo", json!({ "text": "next" })).await;
            assert_eq!(told, json!({ "result": "next" }), "{context}");
            setup.assert_neighbour_is_well().await;
        }
    }
}

#[tokio::test]
async fn a_list_over_the_cap_fails_the_connection() {
    let behaviour = Behaviour::new().http(|http| {
        let trouble = FaultKind::Oversized(80 << 20);
        http.faults.push(Fault::on("tools/list", trouble));
    });
    let (setup, _server) = beside_neighbour(behaviour, json!({})).await;
    let status = setup.status("s");
    assert_eq!(status.status, LinkStatus::Reconnecting);
    let error = status.error.unwrap();
    assert!(error.contains("64 MiB"), "{error}");
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn a_reply_that_breaks_off_fails_its_call_long_before_the_timeout() {
    for era in [Era::Legacy, Era::Stateless] {
        for reply in [ReplyFormat::Json, ReplyFormat::Sse] {
            for trouble in [FaultKind::Cut, FaultKind::Hangup] {
                let behaviour = Behaviour::new().era(era).http(|http| {
                    http.reply = reply;
                    http.faults
                        .push(Fault::on("counter", trouble.clone()).times(1));
                });
                let (setup, server) = beside_neighbour(behaviour, json!({})).await;
                let began = Instant::now();
                let error = setup.error("mcp_s_counter", json!({})).await;
                let context = format!("{era:?}, {reply:?}, {trouble:?}: {error}");
                assert!(began.elapsed() < Duration::from_secs(30), "{context}");
                // With a cause where one is known, as for a body that is cut; a stream just ends.
                let is_named = error.contains("connection to `s` failed during the call")
                    || error.contains("connection to `s` was lost");
                assert!(is_named, "{context}");
                assert_eq!(count(&server, "tools/call"), 1, "{context}");
                let told = setup.call("mcp_s_echo", json!({ "text": "next" })).await;
                assert_eq!(told, json!({ "result": "next" }), "{context}");
                setup.assert_neighbour_is_well().await;
            }
        }
    }
}

#[tokio::test]
async fn a_reply_in_crumbs_is_put_together() {
    for era in [Era::Legacy, Era::Stateless] {
        for reply in [ReplyFormat::Json, ReplyFormat::Sse] {
            let behaviour = Behaviour::new().era(era).http(|http| {
                http.reply = reply;
                http.faults
                    .push(Fault::on("tools/call", FaultKind::Trickle(3, 1)));
            });
            let (setup, _server) = beside_neighbour(behaviour, json!({})).await;
            let text = "Grüße 世界 ".repeat(20);
            let told = setup.call("mcp_s_echo", json!({ "text": text })).await;
            assert_eq!(told, json!({ "result": text }), "{era:?}, {reply:?}");
        }
    }
}

#[tokio::test]
async fn a_late_reply_is_waited_for_and_one_that_is_too_late_is_not() {
    let behaviour = Behaviour::new().http(|http| {
        http.faults.push(Fault::on("echo", FaultKind::Delay(700)));
        http.faults
            .push(Fault::on("counter", FaultKind::Delay(600_000)));
    });
    let (setup, _server) = beside_neighbour(behaviour, json!({ "timeout": 3 })).await;
    let told = setup.call("mcp_s_echo", json!({ "text": "late" })).await;
    assert_eq!(told, json!({ "result": "late" }));
    let error = setup.error("mcp_s_counter", json!({})).await;
    assert!(error.contains("allowed: 3 s"), "{error}");
    setup.assert_ready("s");
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn an_answer_that_is_postponed_is_fetched() {
    let behaviour = Behaviour::new().era(Era::Legacy).http(|http| {
        http.faults
            .push(Fault::on("tools/call", FaultKind::Postpone(50)));
    });
    let (setup, server) = beside_neighbour(behaviour, json!({})).await;
    let told = setup.call("mcp_s_counter", json!({})).await;
    assert_eq!(told, json!({ "result": "1" }));
    let requests = server.requests();
    assert!(
        requests
            .iter()
            .any(|request| request.method == "GET" && request.header("last-event-id").is_some())
    );
}
