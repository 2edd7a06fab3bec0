//! The MCP sessions of a server: whose each is, and how many there may be.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use rmcp::{
    model::ProtocolVersion, transport::streamable_http_server::session::local::LocalSessionManager,
};

use super::Principal;

const SESSION_ID: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// The open sessions and their owners.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) manager: Arc<LocalSessionManager>,
    owners: Mutex<HashMap<String, Principal>>,
    most: usize,
}

impl Sessions {
    pub(super) fn new(idle: Duration, most: usize) -> Arc<Self> {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(idle);
        Arc::new(Self {
            manager: Arc::new(manager),
            owners: Mutex::default(),
            most,
        })
    }

    /// Whether a session is known to be somebody else's.
    fn is_foreign(&self, id: &str, principal: &Principal) -> bool {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.get(id).is_some_and(|owner| owner != principal)
    }

    async fn bind(&self, id: &str, principal: Principal) {
        let open = self.manager.sessions.read().await;
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|id, _| open.contains_key(id.as_str()));
        owners.insert(id.to_owned(), principal);
    }
}

/// Lets a request through to its own session only, and no new one beyond the limit.
pub(super) async fn guard(
    State(sessions): State<Arc<Sessions>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(principal) = request.extensions().get::<Principal>().cloned() else {
        return (
            StatusCode::UNAUTHORIZED,
            [(header::WWW_AUTHENTICATE, "Bearer")],
        )
            .into_response();
    };
    let headers = request.headers();
    if let Some(id) = text(headers, SESSION_ID) {
        if sessions.is_foreign(id, &principal) {
            // As if it did not exist: whose it is, is nobody else's business.
            return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
        }
        let closes = request.method() == Method::DELETE;
        let mut response = next.run(request).await;
        if closes && response.status() == StatusCode::ACCEPTED {
            // It is closed, not about to be; clients take a 202 for a failure.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        return response;
    }
    if request.method() != Method::POST || is_stateless(headers) {
        return next.run(request).await;
    }
    if sessions.manager.sessions.read().await.len() >= sessions.most {
        let most = sessions.most;
        let message = format!("Service Unavailable: {most} MCP sessions are open; close one first");
        return (StatusCode::SERVICE_UNAVAILABLE, message).into_response();
    }
    let response = next.run(request).await;
    if let Some(id) = text(response.headers(), SESSION_ID) {
        sessions.bind(id, principal).await;
    }
    response
}

/// Whether a request belongs to the revisions without sessions.
fn is_stateless(headers: &HeaderMap) -> bool {
    text(headers, VERSION).is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
