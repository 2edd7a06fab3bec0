//! Servers that forget a session, fail, or hang up.

use hermes_mcp::LinkStatus;
use hermes_testkit::{Behaviour, Era, Fault, FaultKind, HttpTransport};
use serde_json::json;

use super::{beside_neighbour, count};
use crate::setup::eventually;

#[tokio::test]
async fn a_forgotten_session_is_opened_anew_and_the_call_repeated() {
    let behaviour = Behaviour::new().era(Era::Legacy).http(|http| {
        // Enough for the lists, not for many calls.
        http.forget_session_after = Some(8);
    });
    let (setup, server) = beside_neighbour(behaviour, json!({})).await;
    setup.assert_ready("s");
    for number in 1..=20 {
        let told = setup.call("mcp_s_counter", json!({})).await;
        assert_eq!(told, json!({ "result": number.to_string() }));
    }
    assert_eq!(count(&server, "initialize"), 2);
    assert_eq!(setup.status("s").calls.errors, 0);
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn a_server_that_forgets_every_session_at_once_fails_the_call_and_not_the_host() {
    let behaviour = Behaviour::new().era(Era::Legacy).http(|http| {
        http.faults
            .push(Fault::on("tools/call", FaultKind::Status(404)));
    });
    let (setup, server) = beside_neighbour(behaviour, json!({})).await;
    let error = setup.error("mcp_s_counter", json!({})).await;
    assert!(error.contains("session"), "{error}");
    assert!(count(&server, "tools/call") <= 2, "repeated once at most");
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn a_fault_on_the_servers_side_is_named_and_passes() {
    for era in [Era::Legacy, Era::Stateless] {
        for status in [500, 502, 503, 429] {
            let behaviour = Behaviour::new().era(era).http(|http| {
                let fault = Fault::on("counter", FaultKind::Status(status)).times(1);
                http.faults.push(fault);
            });
            let (setup, server) = beside_neighbour(behaviour, json!({})).await;
            let error = setup.error("mcp_s_counter", json!({})).await;
            assert!(error.contains(&format!("HTTP {status}")), "{error}");
            assert_eq!(
                count(&server, "tools/call"),
                1,
                "it may have been processed"
            );
            let told = setup.call("mcp_s_counter", json!({})).await;
            assert_eq!(told, json!({ "result": "1" }), "{era:?}, {status}");
            setup.assert_neighbour_is_well().await;
        }
    }
}

#[tokio::test]
async fn a_server_that_is_ill_at_the_start_is_used_when_it_is_well() {
    for trouble in [FaultKind::Status(503), FaultKind::Hangup] {
        let behaviour =
            Behaviour::new().http(|http| http.faults.push(Fault::always(trouble.clone()).times(3)));
        let (setup, _server) = beside_neighbour(behaviour, json!({})).await;
        setup.assert_neighbour_is_well().await;
        setup
            .until("s", |link| link.status == LinkStatus::Ready)
            .await;
        let told = setup.call("mcp_s_echo", json!({ "text": "well" })).await;
        assert_eq!(told, json!({ "result": "well" }), "{trouble:?}");
        assert_eq!(setup.status("s").error, None);
    }
}

#[tokio::test]
async fn a_server_that_stays_ill_says_why() {
    let behaviour =
        Behaviour::new().http(|http| http.faults.push(Fault::always(FaultKind::Status(503))));
    let (setup, _server) = beside_neighbour(behaviour, json!({})).await;
    let status = setup.status("s");
    assert_eq!(status.status, LinkStatus::Reconnecting);
    let error = status.error.unwrap();
    assert!(
        error.contains("503") && error.contains("the server failed"),
        "{error}"
    );
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn losing_the_stream_of_the_older_transport_is_losing_the_connection() {
    let behaviour = Behaviour::new()
        .era(Era::Legacy)
        .http(|http| http.transport = HttpTransport::Sse);
    let (setup, mut server) =
        beside_neighbour(behaviour.clone(), json!({ "transport": "sse" })).await;
    setup.assert_ready("s");
    let port = server.port();
    let call = setup.error("mcp_s_sleep", json!({ "ms": 600_000 }));
    let stop = async {
        eventually("the call arrives", || count(&server, "tools/call") == 1).await;
        server.stop();
    };
    let (error, ()) = tokio::join!(call, stop);
    assert!(error.contains("`s` was lost"), "{error}");
    setup.assert_neighbour_is_well().await;
    let _again = hermes_testkit::HttpServer::start_on(port, behaviour);
    setup
        .until("s", |link| link.status == LinkStatus::Ready)
        .await;
    let told = setup.call("mcp_s_echo", json!({ "text": "back" })).await;
    assert_eq!(told, json!({ "result": "back" }));
}
