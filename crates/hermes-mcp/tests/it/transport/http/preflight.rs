//! Web pages are told from MCP endpoints.

use axum::response::Response;
use hermes_mcp::transport::http::{HttpFailure, PreflightError, classify, preflight};

use super::{
    peer,
    server::{SeenRequest, Server, status, typed},
    settings,
};

async fn verdict(
    answer: impl Fn(&SeenRequest) -> Response + Clone + Send + Sync + 'static,
) -> (Result<(), PreflightError>, Vec<String>) {
    let server = Server::answering(answer).await;
    let settings = settings(&server.url("/docs?key=hidden"), &[("X-Key", "secret")]);
    let verdict = preflight(&peer(&settings)).await;
    let seen = server.seen();
    assert!(
        seen.iter()
            .all(|request| request.header("x-key") == Some("secret"))
    );
    let methods = seen.iter().map(|request| request.method.to_string());
    (verdict, methods.collect())
}

fn html(status: u16) -> Response {
    typed(status, "text/html; charset=utf-8", "<html>")
}

#[tokio::test]
async fn a_web_page_is_refused_with_its_address_and_type() {
    let (verdict, methods) = verdict(|request| match request.method.as_str() {
        "POST" => html(405),
        _ => html(200),
    })
    .await;
    let error = verdict.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("looks like a web page (text/html"), "{text}");
    assert!(
        text.contains("/docs`") && !text.contains("hidden"),
        "{text}"
    );
    assert_eq!(classify(&error), Some(HttpFailure::WebPage));
    assert_eq!(methods, ["HEAD", "POST"]);
}

#[tokio::test]
async fn get_is_asked_where_head_is_not_known() {
    for code in [405, 501] {
        let (verdict, methods) = verdict(move |request| match request.method.as_str() {
            "HEAD" => status(code),
            _ => html(200),
        })
        .await;
        assert!(verdict.is_err());
        assert_eq!(methods, ["HEAD", "GET", "POST"]);
    }
}

#[tokio::test]
async fn a_page_at_an_address_that_takes_mcp_messages_is_fine() {
    for reply in [
        || typed(400, "application/json", "{}"),
        || typed(200, "text/event-stream", ""),
        || status(401),
    ] {
        let (verdict, methods) = verdict(move |request| match request.method.as_str() {
            "POST" => reply(),
            _ => html(200),
        })
        .await;
        assert_eq!(verdict, Ok(()));
        assert_eq!(methods, ["HEAD", "POST"]);
    }
}

#[tokio::test]
async fn json_event_streams_and_refusals_need_no_second_look() {
    for reply in [
        || typed(200, "application/json", "{}"),
        || typed(200, "text/event-stream", ""),
        || html(404),
        || status(401),
    ] {
        let (verdict, methods) = verdict(move |_| reply()).await;
        assert_eq!(verdict, Ok(()));
        assert_eq!(methods, ["HEAD"]);
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_left_to_the_real_connect() {
    let settings = settings("http://127.0.0.1:1/mcp", &[]);
    assert_eq!(preflight(&peer(&settings)).await, Ok(()));
}
