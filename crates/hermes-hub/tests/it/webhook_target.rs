//! A target of webhooks that remembers what it got and answers as a test says.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use tokio::{net::TcpListener, task::JoinHandle};

/// What a target got.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedWebhook {
    pub(crate) id: String,
    pub(crate) timestamp: i64,
    pub(crate) signature: String,
    pub(crate) body: String,
}

/// How a target answers.
#[derive(Debug, Clone)]
pub(crate) enum TargetReply {
    Status(u16),
    Redirect(String),
    Never,
}

#[derive(Default)]
struct TargetState {
    received: Vec<ReceivedWebhook>,
    /// Replies to the next ones; then 200.
    replies: VecDeque<TargetReply>,
}

pub(crate) struct WebhookTarget {
    pub(crate) url: String,
    state: Arc<Mutex<TargetState>>,
    server: JoinHandle<()>,
}

impl Drop for WebhookTarget {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl WebhookTarget {
    pub(crate) async fn new(replies: impl IntoIterator<Item = TargetReply>) -> Self {
        let state = Arc::new(Mutex::new(TargetState {
            received: Vec::new(),
            replies: replies.into_iter().collect(),
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/hook", post(take))
            .with_state(Arc::clone(&state));
        #[expect(clippy::disallowed_methods, reason = "it is ended with its owner")]
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, state, server }
    }

    pub(crate) fn received(&self) -> Vec<ReceivedWebhook> {
        self.state.lock().unwrap().received.clone()
    }
}

async fn take(
    State(state): State<Arc<Mutex<TargetState>>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    let received = ReceivedWebhook {
        id: text("webhook-id"),
        timestamp: text("webhook-timestamp").parse().unwrap(),
        signature: text("webhook-signature"),
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    let reply = {
        let mut state = state.lock().unwrap();
        state.received.push(received);
        state
            .replies
            .pop_front()
            .unwrap_or(TargetReply::Status(200))
    };
    match reply {
        TargetReply::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        TargetReply::Redirect(to) => {
            (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response()
        }
        TargetReply::Never => std::future::pending().await,
    }
}
