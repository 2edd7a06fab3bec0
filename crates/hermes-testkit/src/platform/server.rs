//! The way of a request to a platform: recorded, then failed as ordered or answered.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use tokio::net::TcpListener;

use super::{PlatformFault, PlatformRequest, discord, slack, telegram};
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
    requests: Mutex<Vec<PlatformRequest>>,
    faults: Mutex<Vec<OrderedFault>>,
    last_id: AtomicU64,
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
            requests: Mutex::default(),
            faults: Mutex::default(),
            last_id: AtomicU64::new(100),
        }
    }

    pub(super) fn add_fault(&self, path: &str, good: usize, fault: PlatformFault) {
        let path = path.to_owned();
        lock(&self.faults).push(OrderedFault { path, good, fault });
    }

    pub(super) fn requests(&self) -> Vec<PlatformRequest> {
        lock(&self.requests).clone()
    }

    /// A number no other message has.
    pub(super) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn take_fault(&self, path: &str) -> Option<PlatformFault> {
        let mut faults = lock(&self.faults);
        let is_next = |ordered: &OrderedFault| path.contains(&ordered.path);
        let index = faults.iter().position(is_next)?;
        if faults[index].good > 0 {
            faults[index].good -= 1;
            return None;
        }
        Some(faults.remove(index).fault)
    }
}

async fn handle(State(server): State<Arc<PlatformState>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, BODY_LIMIT).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let path = parts.uri.path();
    let request = PlatformRequest::new(parts.method.as_str(), path, &parts.headers, &bytes);
    lock(&server.requests).push(request.clone());
    if let Some(fault) = server.take_fault(path) {
        return fault.response().await;
    }
    match server.kind {
        PlatformKind::Telegram => telegram::handle_request(&server, &request),
        PlatformKind::Discord => discord::handle_request(&server, &request),
        PlatformKind::Slack => slack::handle_request(&server, &request),
    }
}

/// Answers requests.
pub(super) async fn serve(socket: TcpListener, server: Arc<PlatformState>) -> std::io::Result<()> {
    let router = Router::new().fallback(handle).with_state(server);
    axum::serve(socket, router).await
}
