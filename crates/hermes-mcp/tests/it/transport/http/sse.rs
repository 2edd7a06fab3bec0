//! The legacy HTTP+SSE transport.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::HeaderMap,
    response::Response,
    routing::{get, post},
};
use hermes_mcp::transport::{
    http::{HttpFailure, MAX_MESSAGE_BYTES, classify},
    sse::SseTransport,
};
use rmcp::{
    ServiceError,
    service::{ClientLifecycleMode, ClientServiceExt},
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};

use super::{
    Client, legacy_client, list_tools, peer,
    server::{Server, initialized, redirect, status, typed},
    settings,
};

type LegacyAnswer = fn(&str, &Value) -> Vec<Bytes>;

#[derive(Clone)]
struct Legacy {
    endpoint: &'static str,
    answer: LegacyAnswer,
    stream: Arc<Mutex<Option<mpsc::UnboundedSender<Bytes>>>>,
    keys: Arc<Mutex<HashMap<&'static str, usize>>>,
}

impl Legacy {
    fn new(endpoint: &'static str, answer: LegacyAnswer) -> Self {
        Self {
            endpoint,
            answer,
            stream: Arc::default(),
            keys: Arc::default(),
        }
    }

    async fn start(&self) -> Server {
        let app = Router::new()
            .route("/sse", get(open))
            .route("/messages", post(receive))
            .with_state(self.clone());
        Server::serving(app).await
    }

    fn count_key(&self, what: &'static str, headers: &HeaderMap) {
        if headers.get("x-key").is_some_and(|key| key == "secret") {
            *self.keys.lock().unwrap().entry(what).or_default() += 1;
        }
    }
}

async fn open(State(legacy): State<Legacy>, headers: HeaderMap) -> Response {
    assert_eq!(headers["accept"], "text/event-stream");
    legacy.count_key("GET", &headers);
    let (events, received) = mpsc::unbounded_channel();
    events
        .send(format!(": hello\n\nevent: endpoint\ndata: {}\n\n", legacy.endpoint).into())
        .unwrap();
    *legacy.stream.lock().unwrap() = Some(events);
    let body = futures::stream::unfold(received, |mut received| async move {
        let event = received.recv().await?;
        Some((Ok::<_, Infallible>(event), received))
    });
    typed(200, "text/event-stream", Body::from_stream(body))
}

async fn receive(State(legacy): State<Legacy>, headers: HeaderMap, body: Bytes) -> Response {
    legacy.count_key("POST", &headers);
    let message: Value = serde_json::from_slice(&body).unwrap();
    let method = message["method"].as_str().unwrap_or_default();
    let mut stream = legacy.stream.lock().unwrap();
    if method == "prompts/list" {
        *stream = None;
        return status(202);
    }
    for part in (legacy.answer)(method, &message) {
        // The client may have left already.
        let _ = stream.as_ref().unwrap().send(part);
    }
    status(202)
}

fn reply(message: &Value, result: &Value) -> Bytes {
    let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    format!("event: message\ndata: {reply}\n\n").into()
}

/// Answers the handshake and `tools/list`.
fn ordinary(method: &str, message: &Value) -> Vec<Bytes> {
    match method {
        "initialize" => vec![reply(message, &initialized())],
        "tools/list" => vec![
            "event: strange\ndata: ?\n\ndata: no message\n\n".into(),
            reply(message, &json!({"tools": []})),
        ],
        _ => vec![],
    }
}

async fn connect(server: &Server) -> Client {
    let settings = settings(&server.url("/sse"), &[("X-Key", "secret")]);
    let transport = SseTransport::connect(peer(&settings)).await.unwrap();
    legacy_client()
        .serve_with_lifecycle(transport, ClientLifecycleMode::Initialize)
        .await
        .unwrap()
}

async fn connect_error(server: &Server) -> (Option<HttpFailure>, String) {
    let settings = settings(&server.url("/sse"), &[]);
    let error = SseTransport::connect(peer(&settings)).await.err().unwrap();
    (classify(&error), error.to_string())
}

#[tokio::test]
async fn an_exchange_works_and_carries_the_configured_headers() {
    let legacy = Legacy::new("/messages?session=1", ordinary);
    let server = legacy.start().await;
    let client = connect(&server).await;
    assert_eq!(list_tools(&client).await.unwrap().len(), 0);
    client.cancel().await.unwrap();
    let keys = legacy.keys.lock().unwrap().clone();
    assert_eq!(keys["GET"], 1);
    assert_eq!(keys["POST"], 3, "initialize, initialized, tools/list");
}

#[tokio::test]
async fn closing_ends_the_stream_at_the_server() {
    let legacy = Legacy::new("messages", ordinary);
    let server = legacy.start().await;
    let client = connect(&server).await;
    client.cancel().await.unwrap();
    let stream = legacy.stream.lock().unwrap().take().unwrap();
    timeout(Duration::from_secs(30), stream.closed())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_stream_that_ends_closes_the_connection_and_its_calls() {
    let server = Legacy::new("/messages", ordinary).start().await;
    let client = connect(&server).await;
    let error = client.list_all_prompts().await.unwrap_err();
    assert!(matches!(error, ServiceError::TransportClosed), "{error:?}");
    timeout(Duration::from_secs(30), client.waiting())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn an_event_over_the_limit_fails_the_call_and_names_the_limit() {
    let server = Legacy::new("/messages", |method, message| match method {
        "tools/list" => {
            let blank = Bytes::from(vec![b' '; MAX_MESSAGE_BYTES / 8]);
            std::iter::once("data: ".into())
                .chain(std::iter::repeat_n(blank, 8))
                .collect()
        }
        _ => ordinary(method, message),
    })
    .start()
    .await;
    let client = connect(&server).await;
    let error = list_tools(&client).await.unwrap_err();
    assert_eq!(
        classify(&error),
        Some(HttpFailure::TooLarge {
            cap: MAX_MESSAGE_BYTES
        })
    );
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn an_endpoint_at_another_origin_is_refused() {
    let server = Legacy::new("http://elsewhere.invalid/messages", ordinary)
        .start()
        .await;
    let (failure, text) = connect_error(&server).await;
    assert!(
        matches!(failure, Some(HttpFailure::Other(_))),
        "{failure:?}"
    );
    assert!(text.contains("http://elsewhere.invalid"), "{text}");
}

#[tokio::test]
async fn refusals_and_foreign_types_are_told_apart() {
    let server = Server::answering(|_| status(401)).await;
    assert_eq!(
        connect_error(&server).await.0,
        Some(HttpFailure::Auth { challenge: None })
    );
    let server = Server::answering(|_| typed(404, "text/plain", "nothing")).await;
    assert_eq!(
        connect_error(&server).await.0,
        Some(HttpFailure::Status(404))
    );
    let server = Server::answering(|_| typed(200, "text/html", "<html>")).await;
    assert_eq!(connect_error(&server).await.0, Some(HttpFailure::WebPage));
}

#[tokio::test]
async fn the_stream_may_be_redirected_within_its_origin() {
    let legacy = Legacy::new("/messages", ordinary);
    let app = Router::new()
        .route("/sse", get(async || redirect(302, "/stream")))
        .route("/stream", get(open))
        .route("/messages", post(receive))
        .with_state(legacy.clone());
    let server = Server::serving(app).await;
    let client = connect(&server).await;
    client.cancel().await.unwrap();
    assert_eq!(legacy.keys.lock().unwrap()["GET"], 1);
}
