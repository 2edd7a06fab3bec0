//! 401 and 403.

use hermes_mcp::LinkStatus;
use hermes_testkit::{Behaviour, Era, Fault, FaultKind, HttpServer, HttpTransport, TemporaryHome};
use serde_json::{Value, json};

use super::{beside_neighbour, count};
use crate::setup::{Setup, http, with};

/// What a model is told while only a login helps.
fn login_needed(told: &Value) {
    assert_eq!(told["needs_reauth"], true, "{told}");
    assert_eq!(told["server"], "s", "{told}");
    let error = told["error"].as_str().unwrap();
    assert!(error.contains("hermes mcp login s"), "{error}");
}

#[tokio::test]
async fn a_server_that_wants_a_login_waits_for_it_and_says_so() {
    for era in [Era::Legacy, Era::Stateless] {
        for keys in [
            json!({}),
            json!({ "headers": { "Authorization": "Bearer a-wrong-token" } }),
        ] {
            let behaviour = Behaviour::new()
                .era(era)
                .http(|http| http.bearer = Some("the-right-token".into()));
            let (setup, server) = beside_neighbour(behaviour, keys).await;
            let status = setup.status("s");
            assert_eq!(status.status, LinkStatus::NeedsAuth, "{:?}", status.error);
            let error = status.error.unwrap();
            assert!(error.contains("hermes mcp login s"), "{error}");
            assert!(!error.contains("a-wrong-token"), "{error}");
            assert_eq!(status.next_attempt_at, None, "no timer helps here");
            assert_eq!(count(&server, "tools/list"), 0);
            setup.assert_neighbour_is_well().await;
        }
    }
}

#[tokio::test]
async fn the_right_header_opens_the_door() {
    for (era, transport) in [
        (Era::Legacy, HttpTransport::Streamable),
        (Era::Stateless, HttpTransport::Streamable),
        (Era::Legacy, HttpTransport::Sse),
    ] {
        let behaviour = Behaviour::new().era(era).http(|http| {
            http.bearer = Some("the-right-token".into());
            http.transport = transport;
        });
        let mut keys = json!({ "headers": { "Authorization": "Bearer the-right-token" } });
        if transport == HttpTransport::Sse {
            keys["transport"] = json!("sse");
        }
        let (setup, server) = beside_neighbour(behaviour, keys).await;
        setup.assert_ready("s");
        let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }));
        for request in server.requests() {
            let sent = request.header("authorization");
            assert_eq!(sent, Some("Bearer the-right-token"), "{request:?}");
        }
    }
}

#[tokio::test]
async fn a_401_during_a_call_asks_for_a_login_from_then_on() {
    for era in [Era::Legacy, Era::Stateless] {
        for trouble in [
            FaultKind::Unauthorized("Bearer error=\"invalid_token\"".into()),
            FaultKind::Status(401),
        ] {
            let behaviour = Behaviour::new()
                .era(era)
                .http(|http| http.faults.push(Fault::on("counter", trouble)));
            let (setup, server) = beside_neighbour(behaviour, json!({})).await;
            let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
            assert_eq!(told, json!({ "result": "hi" }));

            login_needed(&setup.call("mcp_s_counter", json!({})).await);
            setup
                .until("s", |link| link.status == LinkStatus::NeedsAuth)
                .await;
            let calls = count(&server, "tools/call");
            login_needed(&setup.call("mcp_s_echo", json!({ "text": "hi" })).await);
            assert_eq!(count(&server, "tools/call"), calls, "nothing more is sent");
            assert!(setup.status("s").error.unwrap().contains("login"));
            setup.assert_neighbour_is_well().await;
        }
    }
}

/// Nobody has a terminal where a Hub hosts the agent.
#[tokio::test]
async fn an_agent_that_a_hub_hosts_says_what_its_operator_can_do_about_a_login() {
    let hosted = || {
        let home = TemporaryHome::new();
        std::fs::write(home.path().join(".env"), "HERMES_TENANT_ID=acme\n").unwrap();
        home
    };
    let advises_the_operator = |error: &str| {
        assert!(
            error.contains("`hermes tenant env set acme NAME`"),
            "{error}"
        );
        assert!(!error.contains("mcp login"), "{error}");
    };
    for keys in [
        json!({}),
        json!({ "auth": "oauth" }),
        json!({ "headers": { "Authorization": "Bearer a-wrong-token" } }),
    ] {
        let behaviour = Behaviour::new().http(|http| http.bearer = Some("right".into()));
        let server = HttpServer::start(behaviour);
        let servers = json!({ "s": with(http(&server), keys) });
        let setup = Setup::in_home(hosted(), servers).await;
        let status = setup.status("s");
        assert_eq!(status.status, LinkStatus::NeedsAuth, "{:?}", status.error);
        advises_the_operator(&status.error.unwrap());
    }
    let fault = Fault::on("counter", FaultKind::Status(401));
    let server = HttpServer::start(Behaviour::new().http(|http| http.faults.push(fault)));
    let setup = Setup::in_home(hosted(), json!({ "s": http(&server) })).await;
    for _ in ["by the call that meets it", "by the next"] {
        let told = setup.call("mcp_s_counter", json!({})).await;
        assert_eq!(told["needs_reauth"], true, "{told}");
        advises_the_operator(told["error"].as_str().unwrap());
        setup
            .until("s", |link| link.status == LinkStatus::NeedsAuth)
            .await;
    }
}

#[tokio::test]
async fn a_missing_scope_asks_for_a_login_too() {
    for era in [Era::Legacy, Era::Stateless] {
        let behaviour = Behaviour::new().era(era).http(|http| {
            let trouble = FaultKind::InsufficientScope("files:write".into());
            http.faults.push(Fault::on("counter", trouble));
        });
        let (setup, _server) = beside_neighbour(behaviour, json!({})).await;
        login_needed(&setup.call("mcp_s_counter", json!({})).await);
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn a_403_without_a_way_in_is_an_error_with_advice() {
    for era in [Era::Legacy, Era::Stateless] {
        let behaviour = Behaviour::new()
            .era(era)
            .http(|http| http.faults.push(Fault::always(FaultKind::Status(403))));
        let (setup, _server) = beside_neighbour(behaviour, json!({})).await;
        let status = setup.status("s");
        assert!(!status.connected);
        let error = status.error.unwrap();
        assert!(error.contains("403"), "{era:?}: {error}");
        setup.assert_neighbour_is_well().await;

        let behaviour = Behaviour::new().era(era).http(|http| {
            http.faults
                .push(Fault::on("counter", FaultKind::Status(403)));
        });
        let (setup, _server) = beside_neighbour(behaviour, json!({})).await;
        let error = setup.error("mcp_s_counter", json!({})).await;
        assert!(error.contains("403"), "{era:?}: {error}");
        let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }));
    }
}
