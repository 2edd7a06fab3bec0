//! Which headers go where, along redirects.

use std::collections::HashMap;

use hermes_mcp::transport::http::{HttpFailure, HttpPeer, classify};
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpPostResponse};
use serde_json::json;

use super::{
    peer, ping, post_ping,
    server::{SeenRequest, Server, redirect, result, status, typed},
    settings,
};

const SECRETS: &[&str] = &["x-key", "authorization", "mcp-session-id"];

/// Posts with everything secret a request can have.
async fn post_with_secrets(peer: &HttpPeer, url: &str) {
    let reply = peer
        .post_message(
            url.into(),
            ping(),
            Some("session".into()),
            Some("token".into()),
            HashMap::new(),
        )
        .await
        .unwrap();
    assert!(matches!(reply, StreamableHttpPostResponse::Json(..)));
}

fn secrets_in(request: &SeenRequest) -> Vec<&'static str> {
    SECRETS
        .iter()
        .filter(|name| request.header(name).is_some())
        .copied()
        .collect()
}

#[tokio::test]
async fn configured_headers_are_on_every_kind_of_request() {
    let server = Server::answering(|request| match request.method.as_str() {
        "POST" => result(request, &json!({})),
        "GET" => typed(200, "text/event-stream", ""),
        _ => status(204),
    })
    .await;
    let url = server.url("/mcp");
    let peer = peer(&settings(&url, &[("X-Key", "secret")]));
    post_with_secrets(&peer, &url).await;
    let _stream = peer
        .get_stream(url.as_str().into(), None, None, None, HashMap::new())
        .await
        .unwrap();
    peer.delete_session(url.as_str().into(), "session".into(), None, HashMap::new())
        .await
        .unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    for request in seen {
        assert_eq!(
            request.header("x-key"),
            Some("secret"),
            "{}",
            request.method
        );
    }
}

#[tokio::test]
async fn a_redirect_within_the_origin_keeps_body_and_headers() {
    for code in [307, 308] {
        let server = Server::answering(move |request| match request.path.as_str() {
            "/mcp" => redirect(code, "/v2"),
            _ => result(request, &json!({})),
        })
        .await;
        let url = server.url("/mcp");
        post_with_secrets(&peer(&settings(&url, &[("X-Key", "secret")])), &url).await;
        let target = &server.seen()[1];
        assert_eq!(target.path, "/v2");
        assert_eq!(target.what(), "ping");
        assert_eq!(secrets_in(target), SECRETS);
        assert_eq!(target.header("authorization"), Some("Bearer token"));
    }
}

#[tokio::test]
async fn a_redirect_to_another_origin_carries_no_secret() {
    let other = Server::answering(|request| result(request, &json!({}))).await;
    let target = other.url("/elsewhere");
    let server = Server::answering(move |_| redirect(307, &target)).await;
    let url = server.url("/mcp");
    let peer = peer(&settings(&url, &[("X-Key", "secret")]));
    post_with_secrets(&peer, &url).await;
    assert_eq!(secrets_in(&server.seen()[0]), SECRETS);
    let arrived = &other.seen()[0];
    assert_eq!(arrived.what(), "ping");
    assert_eq!(secrets_in(arrived), [""; 0]);
}

#[tokio::test]
async fn the_same_host_under_another_name_or_port_is_another_origin() {
    let server = Server::answering(|request| match request.path.as_str() {
        "/mcp" => {
            let host = request.header("host").unwrap();
            let renamed = host.replace("127.0.0.1", "localhost");
            redirect(308, &format!("http://{renamed}/v2"))
        }
        _ => result(request, &json!({})),
    })
    .await;
    let url = server.url("/mcp");
    post_with_secrets(&peer(&settings(&url, &[("X-Key", "secret")])), &url).await;
    assert_eq!(secrets_in(&server.seen()[1]), [""; 0]);
}

#[tokio::test]
async fn secrets_stay_dropped_when_another_origin_redirects_back() {
    let server = Server::answering(|request| match request.path.as_str() {
        "/mcp" => redirect(307, request.header("x-via").unwrap()),
        _ => result(request, &json!({})),
    })
    .await;
    let home = server.url("/home");
    let other = Server::answering(move |_| redirect(307, &home)).await;
    let url = server.url("/mcp");
    let via = other.url("/");
    let settings = settings(&url, &[("X-Key", "secret"), ("X-Via", &via)]);
    post_with_secrets(&peer(&settings), &url).await;
    let back = server.seen().pop().unwrap();
    assert_eq!(back.path, "/home");
    assert_eq!(secrets_in(&back), [""; 0]);
}

#[tokio::test]
async fn a_redirect_that_loses_the_body_is_an_error_for_posts_and_followed_by_gets() {
    for code in [301, 302, 303] {
        let server = Server::answering(move |request| match request.path.as_str() {
            "/mcp" => redirect(code, "/v2?key=hidden"),
            _ => typed(200, "text/event-stream", ""),
        })
        .await;
        let settings = settings(&server.url("/mcp"), &[]);
        let error = post_ping(&settings).await.unwrap_err();
        let Some(HttpFailure::Other(text)) = classify(&error) else {
            panic!("{error:?}");
        };
        assert!(
            text.contains(&server.url("/v2")) && text.contains("`url`"),
            "{text}"
        );
        assert!(!text.contains("hidden"));
        assert_eq!(server.seen().len(), 1);

        let url = settings.url.as_str().into();
        let _stream = peer(&settings)
            .get_stream(url, None, None, None, HashMap::new())
            .await
            .unwrap();
        assert_eq!(server.seen().pop().unwrap().path, "/v2");
    }
}

#[tokio::test]
async fn a_circle_of_redirects_ends_after_ten() {
    let server = Server::answering(|_| redirect(307, "/mcp")).await;
    let error = post_ping(&settings(&server.url("/mcp"), &[]))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("10 redirects"), "{error}");
    assert_eq!(server.seen().len(), 11);
}
