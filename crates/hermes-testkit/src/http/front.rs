//! The way of every request: logged, perhaps struck by a fault, then handed to its transport.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use axum::{
    Router,
    body::to_bytes,
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    RequestGate,
    connection::HangUp,
    fault::{self, FaultQueue},
    log::{HttpRequest, RequestLog, RequestLogEntry},
    sse,
    stream::SseEvent,
    streamable,
};
use crate::{
    behaviour::{Behaviour, FaultKind, HttpTransport},
    script::{Outlet, ScriptSession, ServerScript},
};

/// No test sends more than this.
const BODY_LIMIT: usize = 256 << 20;

/// What all requests of one server share.
pub(super) struct HttpFront {
    pub(super) script: Arc<ServerScript>,
    pub(super) sessions: Mutex<HashMap<String, HttpSession>>,
    /// Answers that wait to be fetched, by event id.
    pub(super) postponed: Mutex<HashMap<String, UnboundedReceiver<SseEvent>>>,
    numbers: AtomicU64,
    session_begun: AtomicBool,
    faults: FaultQueue,
    log: RequestLog,
    gate: Option<Arc<dyn RequestGate>>,
}

/// A client with a session.
pub(super) struct HttpSession {
    pub(super) session: Arc<ScriptSession>,
    /// The stream that all answers of an SSE client go to.
    pub(super) outlet: Option<Arc<dyn Outlet>>,
    /// How many requests remain until the session is forgotten.
    pub(super) requests_left: Option<u32>,
}

/// A request, read to its end.
pub(super) struct ReceivedRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) message: Option<Value>,
    pub(super) entry: RequestLogEntry,
    /// The `retry` of a reply that is to be fetched later.
    pub(super) postpone: Option<u64>,
}

impl HttpFront {
    pub(super) fn new(script: Arc<ServerScript>, gate: Option<Arc<dyn RequestGate>>) -> Self {
        Self {
            faults: FaultQueue::new(&script.behaviour().http.faults),
            script,
            sessions: Mutex::default(),
            postponed: Mutex::default(),
            numbers: AtomicU64::new(0),
            session_begun: AtomicBool::new(false),
            log: RequestLog::default(),
            gate,
        }
    }

    pub(super) fn behaviour(&self) -> &Behaviour {
        self.script.behaviour()
    }

    pub(super) fn requests(&self) -> Vec<HttpRequest> {
        self.log.requests()
    }

    /// A number that was not used before.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    /// Notes that a session begins, and says whether it is the first.
    pub(super) fn is_first_session(&self) -> bool {
        !self.session_begun.swap(true, Ordering::SeqCst)
    }

    /// Refuses a request without the right token.
    fn check_bearer(&self, headers: &HeaderMap) -> Option<Response> {
        let token = self.behaviour().http.bearer.as_ref()?;
        let given = headers.get(header::AUTHORIZATION);
        if given.is_some_and(|given| given.as_bytes() == format!("Bearer {token}").as_bytes()) {
            return None;
        }
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")];
        Some((StatusCode::UNAUTHORIZED, challenge).into_response())
    }
}

/// One handler for every method and path.
pub(super) fn router(front: Arc<HttpFront>) -> Router {
    Router::new().fallback(handle).with_state(front)
}

async fn handle(
    State(front): State<Arc<HttpFront>>,
    ConnectInfo(hang_up): ConnectInfo<HangUp>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_LIMIT).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let message = serde_json::from_slice::<Value>(&body).ok();
    let seen = HttpRequest::read(&parts, &body);
    let for_gate = front.gate.as_ref().map(|gate| (gate, seen.clone()));
    let entry = front.log.add(seen);
    let trouble = front
        .faults
        .next_fault(parts.method.as_str(), message.as_ref());
    if let Some(trouble) = &trouble {
        let reply = front.behaviour().http.reply;
        if let Some(response) = fault::fault_response(trouble, reply, &hang_up).await {
            return response;
        }
    }
    if let Some((gate, request)) = &for_gate
        && let Some(response) = gate.answer(request).await
    {
        return response;
    }
    if let Some(refusal) = front.check_bearer(&parts.headers) {
        return refusal;
    }
    let received = ReceivedRequest {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        message,
        entry,
        postpone: match trouble {
            Some(FaultKind::Postpone(retry)) => Some(retry),
            _ => None,
        },
    };
    let response = match front.behaviour().http.transport {
        HttpTransport::Streamable => streamable::respond(&front, received).await,
        HttpTransport::Sse => sse::respond(&front, received),
    };
    match trouble {
        Some(trouble @ (FaultKind::Cut | FaultKind::Trickle(..))) => {
            fault::corrupt_response(&trouble, response)
        }
        _ => response,
    }
}
