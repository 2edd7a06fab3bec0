//! The way of a request to a platform: recorded, then failed on demand or answered.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use axum::{
    Json, Router,
    body::to_bytes,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{PlatformRequest, discord, slack, telegram, websocket};
use crate::script::lock;

/// No test sends more than this.
const BODY_LIMIT: usize = 64 << 20;

/// Which platform is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlatformKind {
    Telegram,
    Discord,
    Slack,
}

/// What all requests share.
pub(super) struct PlatformState {
    kind: PlatformKind,
    pub(super) token: String,
    pub(super) address: SocketAddr,
    /// The origin in addresses that it gives, if not its own port.
    announced: Mutex<Option<String>>,
    requests: Mutex<Vec<PlatformRequest>>,
    faults: Mutex<Vec<OrderedFault>>,
    last_id: AtomicU64,
    /// How many seconds its clock is ahead.
    clock_ahead: AtomicI64,
    pub(super) telegram: telegram::TelegramWorld,
    pub(super) slack: slack::SlackWorkspace,
    pub(super) discord: discord::DiscordWorld,
}

/// A fault that waits for its request.
struct OrderedFault {
    path: String,
    /// So many requests go well first.
    good: usize,
    fault: PlatformFault,
}

impl PlatformState {
    pub(super) fn new(kind: PlatformKind, token: &str, address: SocketAddr) -> Self {
        Self {
            kind,
            token: token.to_owned(),
            address,
            announced: Mutex::default(),
            requests: Mutex::default(),
            faults: Mutex::default(),
            last_id: AtomicU64::new(100),
            clock_ahead: AtomicI64::new(0),
            telegram: telegram::TelegramWorld::new(token),
            slack: slack::SlackWorkspace::new(),
            discord: discord::DiscordWorld::new(),
        }
    }

    pub(super) fn add_fault(&self, path: &str, good: usize, fault: PlatformFault) {
        let path = path.to_owned();
        lock(&self.faults).push(OrderedFault { path, good, fault });
    }

    pub(super) fn announce(&self, origin: &str) {
        *lock(&self.announced) = Some(origin.to_owned());
    }

    /// What addresses begin with that it gives: `http://127.0.0.1:1234`.
    pub(super) fn web_origin(&self) -> String {
        let announced = lock(&self.announced).clone();
        announced.unwrap_or_else(|| format!("http://{}", self.address))
    }

    /// The same for WebSockets: `ws://127.0.0.1:1234`.
    pub(super) fn socket_origin(&self) -> String {
        self.web_origin().replacen("http", "ws", 1)
    }

    pub(super) fn requests(&self) -> Vec<PlatformRequest> {
        lock(&self.requests).clone()
    }

    /// A number no other message has.
    pub(super) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn set_clock_ahead(&self, seconds: i64) {
        self.clock_ahead.store(seconds, Ordering::Relaxed);
    }

    /// The date of a reply, if its clock is another one.
    fn date(&self) -> Option<HeaderValue> {
        let ahead = self.clock_ahead.load(Ordering::Relaxed);
        if ahead == 0 {
            return None;
        }
        let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(ahead);
        let printed = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&now);
        HeaderValue::try_from(printed.ok()?).ok()
    }

    fn take_fault(&self, path: &str) -> Option<PlatformFault> {
        let mut faults = lock(&self.faults);
        let is_next = |ordered: &OrderedFault| is_about(path, &ordered.path);
        let index = faults.iter().position(is_next)?;
        if faults[index].good > 0 {
            faults[index].good -= 1;
            return None;
        }
        Some(faults.remove(index).fault)
    }
}

/// Whether a path has these words in it, whole: `sendMessage` is not about `sendMessageDraft`.
fn is_about(path: &str, words: &str) -> bool {
    let mut places = path.match_indices(words);
    places.any(|(at, _)| {
        let next = path[at + words.len()..].chars().next();
        !next.is_some_and(|c| c.is_ascii_alphabetic())
    })
}

async fn handle(State(server): State<Arc<PlatformState>>, request: Request) -> Response {
    let mut response = answer(&server, request).await;
    if let Some(date) = server.date() {
        response.headers_mut().insert(header::DATE, date);
    }
    response
}

async fn answer(server: &Arc<PlatformState>, request: Request) -> Response {
    if server.kind == PlatformKind::Slack && slack::is_socket(request.uri().path()) {
        return slack::accept_socket(server, request);
    }
    if server.kind == PlatformKind::Discord && websocket::is_upgrade(&request) {
        return discord::accept_gateway(server, request);
    }
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, BODY_LIMIT).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let path = parts.uri.path();
    let mut request = PlatformRequest::new(parts.method.as_str(), path, &parts.headers, &bytes);
    request.read_query(parts.uri.query());
    lock(&server.requests).push(request.clone());
    if let Some(fault) = server.take_fault(path) {
        return fault.response().await;
    }
    match server.kind {
        PlatformKind::Telegram => telegram::handle_request(server, &request).await,
        PlatformKind::Discord => discord::handle_request(server, &request),
        PlatformKind::Slack => slack::handle_request(server, &request),
    }
}

/// Answers requests.
pub(super) async fn serve(socket: TcpListener, server: Arc<PlatformState>) -> std::io::Result<()> {
    let router = Router::new().fallback(handle).with_state(server);
    axum::serve(socket, router).await
}

/// How a request fails.
#[derive(Debug, Clone, PartialEq)]
pub enum PlatformFault {
    /// With a status and a body.
    Status(u16, Value),
    /// Too many requests; the header says how many seconds to wait.
    LimitedByHeader(u64),
    /// Too many requests; the body says how many seconds to wait, as Telegram's and Discord's do.
    LimitedByBody(u64),
    /// It never answers.
    Silence,
    /// The connection is taken for a success, and the body says otherwise, as Slack's do.
    NotOk(String),
}

impl PlatformFault {
    /// A failure without any body.
    pub fn status(status: u16) -> Self {
        Self::Status(status, Value::Null)
    }

    pub(super) async fn response(self) -> Response {
        match self {
            Self::Status(status, body) => {
                let status = StatusCode::from_u16(status).unwrap_or_default();
                (status, Json(body)).into_response()
            }
            Self::LimitedByHeader(seconds) => {
                let body = Json(json!({"ok": false, "error": "ratelimited"}));
                let mut response = (StatusCode::TOO_MANY_REQUESTS, body).into_response();
                let seconds = HeaderValue::from(seconds);
                response.headers_mut().insert(header::RETRY_AFTER, seconds);
                response
            }
            Self::LimitedByBody(seconds) => {
                let body = json!({
                    "ok": false,
                    "error_code": 429,
                    "description": format!("Too Many Requests: retry after {seconds}"),
                    "parameters": {"retry_after": seconds},
                    "message": "You are being rate limited.",
                    "retry_after": seconds,
                });
                (StatusCode::TOO_MANY_REQUESTS, Json(body)).into_response()
            }
            Self::Silence => std::future::pending().await,
            Self::NotOk(error) => Json(json!({"ok": false, "error": error})).into_response(),
        }
    }
}
