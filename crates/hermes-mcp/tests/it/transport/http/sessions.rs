//! MCP sessions of legacy servers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{http::HeaderValue, response::Response};
use hermes_mcp::transport::http::{HttpFailure, classify};
use rmcp::service::ClientLifecycleMode;
use serde_json::json;

use super::{
    connect, list_tools,
    server::{SeenRequest, Server, initialized, result, status},
    settings,
};

/// Gives out sessions `s1`, `s2` and so on, and knows only those from `first_known` on. GET and DELETE are not there.
async fn forgetful(first_known: usize) -> Server {
    let sessions = Arc::new(AtomicUsize::new(0));
    Server::answering(move |request| match request.what().as_str() {
        "initialize" => {
            let number = sessions.fetch_add(1, Ordering::SeqCst) + 1;
            with_session(result(request, &initialized()), number)
        }
        "notifications/initialized" => status(202),
        "GET" | "DELETE" => status(405),
        _ if session(request) < first_known => status(404),
        _ => result(request, &json!({"tools": []})),
    })
    .await
}

fn with_session(mut response: Response, number: usize) -> Response {
    let value = HeaderValue::try_from(format!("s{number}")).unwrap();
    response.headers_mut().insert("mcp-session-id", value);
    response
}

fn session(request: &SeenRequest) -> usize {
    let session = request.header("mcp-session-id").unwrap_or("s0");
    session[1..].parse().unwrap()
}

fn messages(server: &Server) -> Vec<String> {
    server
        .seen()
        .iter()
        .filter(|request| request.method == "POST")
        .map(SeenRequest::what)
        .collect()
}

#[tokio::test]
async fn a_lost_session_is_opened_anew_and_the_request_repeated_once() {
    let server = forgetful(2).await;
    let settings = settings(&server.url("/mcp"), &[("X-Key", "secret")]);
    let client = connect(&settings, ClientLifecycleMode::Initialize)
        .await
        .unwrap();
    assert_eq!(list_tools(&client).await.unwrap().len(), 0);
    assert_eq!(
        messages(&server),
        [
            "initialize",
            "notifications/initialized",
            "tools/list",
            "initialize",
            "notifications/initialized",
            "tools/list",
        ]
    );
    for request in server.seen() {
        assert_eq!(
            request.header("x-key"),
            Some("secret"),
            "{}",
            request.what()
        );
    }
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_session_lost_twice_is_reported() {
    let server = forgetful(99).await;
    let settings = settings(&server.url("/mcp"), &[]);
    let client = connect(&settings, ClientLifecycleMode::Initialize)
        .await
        .unwrap();
    let error = list_tools(&client).await.unwrap_err();
    assert_eq!(classify(&error), Some(HttpFailure::SessionLost));
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_server_without_get_and_delete_works() {
    let server = forgetful(0).await;
    let settings = settings(&server.url("/mcp"), &[]);
    let client = connect(&settings, ClientLifecycleMode::Initialize)
        .await
        .unwrap();
    list_tools(&client).await.unwrap();
    client.cancel().await.unwrap();
    let methods: Vec<_> = server
        .seen()
        .iter()
        .map(|request| request.method.to_string())
        .collect();
    assert!(methods.contains(&"GET".into()), "{methods:?}");
    assert_eq!(methods.last().unwrap(), "DELETE");
}
