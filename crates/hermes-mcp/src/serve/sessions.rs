//! The MCP sessions of a server: whose each is, how many there may be, and ending them.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Instant,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_body::Frame;
use rmcp::{model::ProtocolVersion, transport::streamable_http_server::SessionManager};

use super::{Principal, http::HttpOptions, session_manager::Manager};

const SESSION_ID: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// The open sessions and their owners.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) manager: Arc<Manager>,
    held: Mutex<HashMap<Arc<str>, Held>>,
    most: usize,
    most_per_principal: usize,
}

/// What is known of a session.
#[derive(Debug)]
struct Held {
    principal: Principal,
    last_used: Instant,
    /// Answers on their way.
    open_streams: usize,
}

/// The sessions of a server, for whoever must end some.
#[derive(Debug, Clone)]
pub struct OpenSessions(pub(super) Arc<Sessions>);

impl OpenSessions {
    /// Ends all sessions of a principal, with their streams.
    pub async fn end(&self, principal: &Principal) {
        let ids: Vec<_> = {
            let mut held = self.0.held();
            held.extract_if(|_, session| session.principal == *principal)
                .map(|(id, _)| id)
                .collect()
        };
        for id in ids {
            self.0.close(&id).await;
        }
    }

    /// How many are open.
    pub async fn count(&self) -> usize {
        self.0.manager.count().await
    }
}

impl Sessions {
    pub(super) fn new(options: &HttpOptions) -> Arc<Self> {
        Arc::new(Self {
            manager: Arc::new(Manager::new(options.session_idle)),
            held: Mutex::default(),
            most: options.most_sessions,
            most_per_principal: options.most_sessions_per_principal,
        })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Arc<str>, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a session is known to be somebody else's. One's own counts as used.
    fn is_foreign(&self, id: &str, principal: &Principal) -> bool {
        match self.held().get_mut(id) {
            Some(session) if session.principal != *principal => true,
            Some(session) => {
                session.last_used = Instant::now();
                false
            }
            None => false,
        }
    }

    async fn close(&self, id: &Arc<str>) {
        if let Err(error) = self.manager.close_session(id).await {
            tracing::warn!(%error, "an MCP session does not end");
        }
    }

    /// Takes a new session in. Beyond the principal's number the one longest idle gives way; if all are in use, the
    /// new one does.
    async fn admit(&self, id: &str, principal: Principal) -> Result<(), Full> {
        let open = self.manager.open_ids().await;
        let id: Arc<str> = id.into();
        let gives_way = {
            let mut held = self.held();
            held.retain(|id, _| open.contains(id));
            let own = held
                .iter()
                .filter(|(_, session)| session.principal == principal);
            let gives_way = if own.clone().count() < self.most_per_principal {
                None
            } else {
                let idle = own.filter(|(_, session)| session.open_streams == 0);
                let longest_idle = idle.min_by_key(|(_, session)| session.last_used);
                Some(longest_idle.map(|(id, _)| Arc::clone(id)))
            };
            if let Some(Some(old)) = &gives_way {
                held.remove(old);
            }
            if gives_way != Some(None) {
                let session = Held {
                    principal,
                    last_used: Instant::now(),
                    open_streams: 0,
                };
                held.insert(Arc::clone(&id), session);
            }
            gives_way
        };
        match gives_way {
            None => Ok(()),
            Some(Some(old)) => {
                self.close(&old).await;
                Ok(())
            }
            Some(None) => {
                self.close(&id).await;
                Err(Full)
            }
        }
    }
}

/// All sessions of a principal are in use.
struct Full;

/// Lets a request through to its own session only, and no new one beyond the limits.
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
    if let Some(id) = text(headers, SESSION_ID).map(Arc::<str>::from) {
        let closes = request.method() == Method::DELETE;
        let is_gone = closes && !sessions.manager.has_session(&id).await.unwrap_or(false);
        if is_gone || sessions.is_foreign(&id, &principal) {
            // As if it did not exist: whose it is, is nobody else's business.
            return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
        }
        let mut response = next.run(request).await;
        if closes && response.status() == StatusCode::ACCEPTED {
            // It is closed, not about to be; clients take a 202 for a failure.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        return response.map(|body| Body::new(Streamed::new(body, sessions, id)));
    }
    if request.method() != Method::POST || is_stateless(headers) {
        return next.run(request).await;
    }
    if sessions.manager.count().await >= sessions.most {
        let most = sessions.most;
        let message = format!("Service Unavailable: {most} MCP sessions are open; close one first");
        return (StatusCode::SERVICE_UNAVAILABLE, message).into_response();
    }
    let response = next.run(request).await;
    if let Some(id) = text(response.headers(), SESSION_ID)
        && sessions.admit(id, principal).await.is_err()
    {
        let most = sessions.most_per_principal;
        let message =
            format!("Too Many Requests: all your {most} MCP sessions are in use; close one first");
        return (
            StatusCode::TOO_MANY_REQUESTS,
            [(header::RETRY_AFTER, "5")],
            message,
        )
            .into_response();
    }
    response
}

/// An answer of a session, which counts as in use until it is sent.
struct Streamed {
    body: Body,
    sessions: Arc<Sessions>,
    id: Arc<str>,
}

impl Streamed {
    fn new(body: Body, sessions: Arc<Sessions>, id: Arc<str>) -> Self {
        if let Some(session) = sessions.held().get_mut(&id) {
            session.open_streams += 1;
        }
        Self { body, sessions, id }
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        if let Some(session) = self.sessions.held().get_mut(&self.id) {
            session.open_streams = session.open_streams.saturating_sub(1);
            session.last_used = Instant::now();
        }
    }
}

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// Whether a request belongs to the revisions without sessions.
fn is_stateless(headers: &HeaderMap) -> bool {
    text(headers, VERSION).is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
