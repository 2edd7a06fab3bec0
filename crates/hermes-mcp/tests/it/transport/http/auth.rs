//! Refusals and other failures, as the rest of the program sees them.

use axum::{
    body::Body,
    http::{StatusCode, header},
    response::Response,
};
use hermes_mcp::transport::http::{HttpFailure, classify};
use rmcp::service::ClientLifecycleMode;
use serde_json::json;

use super::{
    connect, list_tools, post_ping,
    server::{Server, legacy, status, typed},
    settings,
};

fn challenge(status: u16, challenge: &str) -> Response {
    Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header(header::WWW_AUTHENTICATE, challenge)
        .body(Body::empty())
        .unwrap()
}

#[tokio::test]
async fn a_401_with_a_challenge_reaches_both_rmcp_and_our_classification() {
    let server = Server::answering(|_| challenge(401, "Bearer realm=\"x\"")).await;
    let settings = settings(&server.url("/mcp"), &[]);
    for lifecycle in [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Auto {
            preferred_versions: vec![rmcp::model::ProtocolVersion::LATEST],
            legacy_version: None,
        },
    ] {
        let error = connect(&settings, lifecycle).await.unwrap_err();
        assert_eq!(error.auth_challenge(), Some("Bearer realm=\"x\""));
        assert!(error.is_authorization_required());
        assert_eq!(
            classify(&*error),
            Some(HttpFailure::Auth {
                challenge: Some("Bearer realm=\"x\"".into())
            })
        );
    }
}

#[tokio::test]
async fn a_refusal_without_a_challenge_is_an_auth_failure_too() {
    let server = Server::answering(|request| match request.path.as_str() {
        "/401" => status(401),
        _ => typed(403, "application/json", "{\"error\":\"no\"}"),
    })
    .await;
    let failure_at = async |path: &str| {
        let settings = settings(&server.url(path), &[]);
        let error = connect(&settings, ClientLifecycleMode::Initialize)
            .await
            .unwrap_err();
        assert_eq!(error.auth_challenge(), None);
        classify(&*error)
    };
    assert_eq!(
        failure_at("/401").await,
        Some(HttpFailure::Auth { challenge: None })
    );
    assert_eq!(
        failure_at("/403").await,
        Some(HttpFailure::Forbidden { challenge: None })
    );
}

#[tokio::test]
async fn a_403_with_a_challenge_names_the_scope_to_ask_for() {
    let server = Server::answering(|_| {
        challenge(
            403,
            "Bearer error=\"insufficient_scope\", scope=\"files:write\"",
        )
    })
    .await;
    let error = post_ping(&settings(&server.url("/mcp"), &[]))
        .await
        .unwrap_err();
    let rmcp::transport::streamable_http_client::StreamableHttpError::InsufficientScope(scope) =
        &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(scope.get_required_scope(), Some("files:write"));
    assert!(matches!(
        classify(&error),
        Some(HttpFailure::Forbidden { challenge: Some(_) })
    ));
}

#[tokio::test]
async fn other_statuses_keep_their_code_and_the_beginning_of_their_body() {
    let server = Server::answering(|_| typed(503, "text/plain", "gone fishing ".repeat(100))).await;
    let error = post_ping(&settings(&server.url("/mcp"), &[]))
        .await
        .unwrap_err();
    assert_eq!(classify(&error), Some(HttpFailure::Status(503)));
    let text = error.to_string();
    assert!(text.contains("HTTP 503: gone fishing"), "{text}");
    assert!(text.len() < 350, "{}", text.len());
}

#[tokio::test]
async fn a_json_rpc_error_in_a_refusal_answers_the_request_even_without_its_id() {
    let server = Server::answering(|request| {
        legacy(request, |_| {
            let error =
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "busy"}});
            typed(400, "application/json", error.to_string())
        })
    })
    .await;
    let settings = settings(&server.url("/mcp"), &[]);
    let client = connect(&settings, ClientLifecycleMode::Initialize)
        .await
        .unwrap();
    let error = list_tools(&client).await.unwrap_err();
    assert!(
        matches!(&error, rmcp::ServiceError::McpError(error) if error.message == "busy"),
        "{error:?}"
    );
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_the_query() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let settings = settings(&format!("http://{address}/mcp?key=hidden"), &[]);
    let error = connect(&settings, ClientLifecycleMode::Initialize)
        .await
        .unwrap_err();
    let Some(HttpFailure::Connect(text)) = classify(&*error) else {
        panic!("{error:?}");
    };
    assert!(text.contains(&format!("http://{address}")), "{text}");
    assert!(text.contains("is the server running"), "{text}");
    assert!(!text.contains("hidden") && !error.to_string().contains("hidden"));
}

#[tokio::test]
async fn html_in_place_of_a_reply_is_a_web_page() {
    let server = Server::answering(|_| typed(200, "text/html; charset=utf-8", "<p>")).await;
    let error = post_ping(&settings(&server.url("/mcp"), &[]))
        .await
        .unwrap_err();
    assert_eq!(classify(&error), Some(HttpFailure::WebPage));
}
