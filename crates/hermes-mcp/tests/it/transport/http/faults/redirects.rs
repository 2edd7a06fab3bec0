//! Redirects, and what stays behind when they lead elsewhere.

use hermes_testkit::{Behaviour, Era, Fault, FaultKind, HttpServer};
use serde_json::{Value, json};

use super::{beside_neighbour, count};

fn secrets() -> Value {
    json!({ "headers": {
        "Authorization": "Bearer s3cr3t-token",
        "X-Api-Key": "s3cr3t-key",
        "Cookie": "s3cr3t=1",
        "X-Harmless": "s3cr3t-too",
    } })
}

fn assert_got_no_secret(server: &HttpServer) {
    for request in server.requests() {
        for (name, value) in &request.headers {
            assert!(!value.contains("s3cr3t"), "{name}: {value}");
        }
    }
}

#[tokio::test]
async fn no_credential_follows_a_redirect_to_another_origin() {
    for era in [Era::Legacy, Era::Stateless] {
        // A session of the other origin would stay behind as well, so it has none.
        let elsewhere = Behaviour::new().era(era).http(|http| http.sessions = false);
        let elsewhere = HttpServer::start(elsewhere);
        let behaviour = Behaviour::new().http(|http| {
            let trouble = FaultKind::Redirect(elsewhere.url());
            http.faults.push(Fault::always(trouble));
        });
        let (setup, server) = beside_neighbour(behaviour, secrets()).await;
        setup.assert_ready("s");
        let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }), "{era:?}");
        assert_eq!(count(&elsewhere, "tools/call"), 1);
        assert_got_no_secret(&elsewhere);
        let call = server.requests();
        let call = call
            .iter()
            .find(|request| request.rpc_method() == "tools/call");
        assert_eq!(call.unwrap().header("x-api-key"), Some("s3cr3t-key"));
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn no_credential_follows_when_only_a_call_is_redirected() {
    let elsewhere = HttpServer::start(Behaviour::new().era(Era::Stateless));
    let behaviour = Behaviour::new().era(Era::Stateless).http(|http| {
        let trouble = FaultKind::Redirect(elsewhere.url());
        http.faults.push(Fault::on("tools/call", trouble));
    });
    let (setup, _server) = beside_neighbour(behaviour, secrets()).await;
    setup.call("mcp_s_counter", json!({})).await;
    assert_eq!(count(&elsewhere, "tools/call"), 1);
    assert_got_no_secret(&elsewhere);
}

#[tokio::test]
async fn credentials_stay_on_a_redirect_within_the_origin() {
    for era in [Era::Legacy, Era::Stateless] {
        let behaviour = Behaviour::new().era(era).http(|http| {
            http.bearer = Some("s3cr3t-token".into());
            let fault = Fault::on("tools/call", FaultKind::Redirect("/mcp".into())).times(1);
            http.faults.push(fault);
        });
        let (setup, server) = beside_neighbour(behaviour, secrets()).await;
        let told = setup.call("mcp_s_counter", json!({})).await;
        assert_eq!(told, json!({ "result": "1" }), "{era:?}");
        assert_eq!(count(&server, "tools/call"), 2);
    }
}

#[tokio::test]
async fn redirects_without_end_are_an_error() {
    let behaviour = Behaviour::new().http(|http| {
        let fault = Fault::on("tools/call", FaultKind::Redirect("/mcp".into()));
        http.faults.push(fault);
    });
    let (setup, server) = beside_neighbour(behaviour, json!({})).await;
    let error = setup.error("mcp_s_counter", json!({})).await;
    assert!(error.contains("redirects"), "{error}");
    assert!(count(&server, "tools/call") < 30);
    setup.assert_ready("s");
    setup.assert_neighbour_is_well().await;
}
