//! Size limits: a reply over the limit fails its call and says so.

use axum::body::{Body, Bytes};
use hermes_mcp::transport::http::{HttpFailure, MAX_MESSAGE_BYTES, classify};
use rmcp::service::ClientLifecycleMode;

use super::{
    connect, list_tools, post_ping,
    server::{Server, legacy, typed},
    settings,
};

const CHUNK: usize = 1024 * 1024;

/// Some bytes, then blanks without an announced length until there is one chunk more than fits.
fn endless(start: &'static str) -> Body {
    let blank = Bytes::from(vec![b' '; CHUNK]);
    let chunks = std::iter::once(Bytes::from_static(start.as_bytes()))
        .chain(std::iter::repeat_n(blank, MAX_MESSAGE_BYTES / CHUNK + 1));
    Body::from_stream(futures::stream::iter(
        chunks.map(Ok::<_, std::convert::Infallible>),
    ))
}

#[tokio::test]
async fn a_json_reply_over_the_limit_is_refused_whether_or_not_its_length_is_announced() {
    let server = Server::answering(|request| match request.path.as_str() {
        "/announced" => typed(200, "application/json", vec![b' '; MAX_MESSAGE_BYTES + 1]),
        _ => typed(200, "application/json", endless("{")),
    })
    .await;
    for path in ["/announced", "/endless"] {
        let error = post_ping(&settings(&server.url(path), &[]))
            .await
            .unwrap_err();
        assert_eq!(
            classify(&error),
            Some(HttpFailure::TooLarge {
                cap: MAX_MESSAGE_BYTES
            }),
            "{path}"
        );
        assert!(error.to_string().contains("64 MiB"), "{error}");
    }
}

#[tokio::test]
async fn an_event_over_the_limit_fails_the_call_and_names_the_limit() {
    let server = Server::answering(|request| {
        legacy(request, |_| {
            typed(200, "text/event-stream", endless("id: 1\ndata: "))
        })
    })
    .await;
    let settings = settings(&server.url("/mcp"), &[]);
    let client = connect(&settings, ClientLifecycleMode::Initialize)
        .await
        .unwrap();
    let error = list_tools(&client).await.unwrap_err();
    assert_eq!(
        classify(&error),
        Some(HttpFailure::TooLarge {
            cap: MAX_MESSAGE_BYTES
        })
    );
    assert!(error.to_string().contains("64 MiB"), "{error}");
    client.cancel().await.unwrap();
}
