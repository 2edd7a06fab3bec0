//! A small HTTP server that keeps what it was asked and answers as a test tells it to.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, Method, StatusCode, header},
    response::Response,
    routing::any,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct SeenRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl SeenRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// `method` of the JSON-RPC message, or the HTTP method where there is none.
    pub(crate) fn what(&self) -> String {
        match self.json()["method"].as_str() {
            Some(method) => method.to_owned(),
            None => self.method.to_string(),
        }
    }
}

/// A server on a free port. It ends when dropped.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Answers every request with what the function returns for it.
    pub(crate) async fn answering(
        answer: impl Fn(&SeenRequest) -> Response + Clone + Send + Sync + 'static,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = seen.clone();
        let handler = move |request: Request| {
            let (record, answer) = (record.clone(), answer.clone());
            async move {
                let (parts, body) = request.into_parts();
                let request = SeenRequest {
                    method: parts.method,
                    path: parts.uri.path().to_owned(),
                    headers: parts.headers,
                    body: axum::body::to_bytes(body, usize::MAX).await.unwrap(),
                };
                let response = answer(&request);
                record.lock().unwrap().push(request);
                response
            }
        };
        let mut server = Self::serving(Router::new().fallback(any(handler))).await;
        server.seen = seen;
        server
    }

    /// Serves an application of its own.
    pub(crate) async fn serving(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            address,
            seen: Arc::default(),
            _tasks: tasks,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().clone()
    }
}

pub(crate) fn status(status: u16) -> Response {
    typed(status, "text/plain", Body::empty())
}

pub(crate) fn typed(status: u16, content_type: &str, body: impl Into<Body>) -> Response {
    Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header(header::CONTENT_TYPE, content_type)
        .body(body.into())
        .unwrap()
}

pub(crate) fn redirect(status: u16, target: &str) -> Response {
    Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header(header::LOCATION, target)
        .body(Body::empty())
        .unwrap()
}

/// The reply to a JSON-RPC request.
pub(crate) fn result(request: &SeenRequest, result: &Value) -> Response {
    let reply = json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": result});
    typed(200, "application/json", reply.to_string())
}

/// The result of `initialize`.
pub(crate) fn initialized() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "test", "version": "1"},
    })
}

/// A legacy server without MCP session: answers the handshake, and `other` for all else.
pub(crate) fn legacy(
    request: &SeenRequest,
    other: impl FnOnce(&SeenRequest) -> Response,
) -> Response {
    match request.what().as_str() {
        "initialize" => result(request, &initialized()),
        "notifications/initialized" => status(202),
        _ => other(request),
    }
}
