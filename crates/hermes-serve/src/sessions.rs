//! The MCP sessions of a server: whose each is, how many there may be, and ending them.

use std::{
    collections::{HashMap, HashSet},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::future::BoxFuture;
use hermes_config::sync::{Mutex, MutexGuard};
use http_body::Frame;
use rmcp::{
    model::ProtocolVersion,
    transport::streamable_http_server::{SessionManager, session::SessionState},
};

use super::{
    Principal,
    options::HttpServeOptions,
    records::{
        NegotiatedStates, SessionAdmission, SessionDigest, SessionRecords, SessionUse,
        digest_session_id,
    },
    session_manager::RandomIdSessionManager,
};

const SESSION_ID_HEADER: &str = "mcp-session-id";
const VERSION_HEADER: &str = "mcp-protocol-version";

/// How long a record that was read is trusted. The session may have been ended by another process.
const RECORD_CACHE_TTL: Duration = Duration::from_secs(1);

/// The open sessions and their owners.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) manager: Arc<RandomIdSessionManager>,
    pub(super) negotiated: Arc<NegotiatedStates>,
    records: Option<Arc<dyn SessionRecords>>,
    entries: Mutex<HashMap<Arc<str>, SessionEntry>>,
    max_total: usize,
    max_per_principal: usize,
}

/// What is known of a session.
#[derive(Debug)]
struct SessionEntry {
    principal: Principal,
    digest: SessionDigest,
    last_used: Instant,
    /// When its record was last seen.
    record_seen_at: Instant,
    /// Answers on their way.
    open_streams: usize,
}

impl SessionEntry {
    fn new(id: &str, principal: Principal) -> Self {
        Self {
            principal,
            digest: digest_session_id(id),
            last_used: Instant::now(),
            record_seen_at: Instant::now(),
            open_streams: 0,
        }
    }
}

/// The sessions of a server, for whoever must end some.
#[derive(Debug, Clone)]
pub struct OpenSessions(pub(super) Arc<Sessions>);

impl OpenSessions {
    /// Ends all sessions of a principal, with their streams.
    pub fn end_sessions_of<'a>(&'a self, principal: &'a Principal) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.end_matching(|session| session.principal == *principal)
                .await;
        })
    }

    /// Ends these sessions here: their records are gone.
    pub fn end_deleted<'a>(&'a self, gone: &'a HashSet<SessionDigest>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.end_matching(|session| gone.contains(&session.digest))
                .await;
        })
    }

    async fn end_matching(&self, is_meant: impl Fn(&SessionEntry) -> bool) {
        let ids: Vec<_> = {
            let mut held = self.0.lock_entries();
            held.extract_if(|_, session| is_meant(session))
                .map(|(id, _)| id)
                .collect()
        };
        for id in ids {
            self.0.close(&id).await;
        }
    }

    /// Those that are in use at this moment.
    pub fn in_use(&self) -> Vec<SessionDigest> {
        let held = self.0.lock_entries();
        let in_use = held.values().filter(|session| session.open_streams > 0);
        in_use.map(|session| session.digest).collect()
    }

    pub async fn count(&self) -> usize {
        self.0.manager.count().await
    }
}

/// Marks a request whose session is open in this process and belongs to who sent it.
#[derive(Debug, Clone, Copy)]
pub struct InOpenSession;

/// Where a session is.
enum SessionLookup {
    /// In this process.
    Local,
    /// In its record only, with what was agreed in it.
    Recorded(Box<SessionState>),
    /// There is none, or it belongs to another principal, which is not disclosed.
    NotFound,
}

impl Sessions {
    pub(super) fn new(options: &HttpServeOptions) -> Arc<Self> {
        Arc::new(Self {
            manager: Arc::new(RandomIdSessionManager::new(options.session_idle_timeout)),
            negotiated: Arc::default(),
            records: options.records.clone(),
            entries: Mutex::default(),
            max_total: options.max_sessions,
            max_per_principal: options.max_sessions_per_principal,
        })
    }

    fn lock_entries(&self) -> MutexGuard<'_, HashMap<Arc<str>, SessionEntry>> {
        self.entries.lock()
    }

    /// Finds a session of this principal, which counts as used.
    async fn find(&self, id: &Arc<str>, principal: &Principal) -> io::Result<SessionLookup> {
        let is_here = self.manager.has_session(id).await.unwrap_or(false);
        let is_trusted = match self.lock_entries().get_mut(id) {
            Some(session) if session.principal != *principal => return Ok(SessionLookup::NotFound),
            Some(session) => {
                session.last_used = Instant::now();
                session.record_seen_at.elapsed() < RECORD_CACHE_TTL
            }
            None => false,
        };
        let here = if is_here {
            SessionLookup::Local
        } else {
            SessionLookup::NotFound
        };
        let Some(records) = self.records.as_ref().filter(|_| !(is_here && is_trusted)) else {
            return Ok(here);
        };
        let Some(agreed) = records.find(&digest_session_id(id), principal).await? else {
            if is_here {
                self.lock_entries().remove(id);
                self.close(id).await;
            }
            return Ok(SessionLookup::NotFound);
        };
        self.lock_entries()
            .entry(Arc::clone(id))
            .or_insert_with(|| SessionEntry::new(id, principal.clone()))
            .record_seen_at = Instant::now();
        if is_here {
            return Ok(SessionLookup::Local);
        }
        let agreed = serde_json::from_value(agreed).map_err(io::Error::other)?;
        Ok(SessionLookup::Recorded(agreed))
    }

    async fn close(&self, id: &Arc<str>) {
        if let Err(error) = self.manager.close_session(id).await {
            tracing::warn!(%error, "failed to close an MCP session");
        }
    }

    /// Ends a session for good.
    async fn end_record(&self, id: &Arc<str>, principal: &Principal) {
        self.lock_entries().remove(id);
        if let Some(records) = &self.records
            && let Err(error) = records.end(&digest_session_id(id), principal).await
        {
            tracing::warn!(%error, "failed to delete an MCP session record");
        }
    }

    /// Takes a new session in. Beyond the principal's number the one longest idle gives way; if all are in use, the
    /// new one does.
    async fn register(&self, id: &str, principal: Principal) -> Result<(), SessionRefusal> {
        let open = self.manager.open_ids().await;
        self.lock_entries().retain(|id, _| open.contains(id));
        self.negotiated.retain_new(|id| open.contains(id));
        let id: Arc<str> = id.into();
        let gives_way = match &self.records {
            None => self.session_to_evict(&principal),
            Some(records) => self.store_record(&**records, &id, &principal).await,
        };
        match gives_way {
            Ok(gives_way) => {
                let old = gives_way.and_then(|old| self.remove(&old));
                self.lock_entries()
                    .insert(Arc::clone(&id), SessionEntry::new(&id, principal));
                if let Some(old) = old {
                    self.close(&old).await;
                }
                Ok(())
            }
            Err(refusal) => {
                self.close(&id).await;
                Err(refusal)
            }
        }
    }

    /// Who gives way to one more session of a principal, where this process alone knows of them.
    fn session_to_evict(
        &self,
        principal: &Principal,
    ) -> Result<Option<SessionDigest>, SessionRefusal> {
        let held = self.lock_entries();
        let own = held
            .values()
            .filter(|session| session.principal == *principal);
        if own.clone().count() < self.max_per_principal {
            return Ok(None);
        }
        let idle = own.filter(|session| session.open_streams == 0);
        let longest = idle.min_by_key(|session| session.last_used);
        let longest = longest.ok_or(SessionRefusal::Full(self.max_per_principal))?;
        Ok(Some(longest.digest))
    }

    /// The same where sessions are kept elsewhere.
    async fn store_record(
        &self,
        records: &dyn SessionRecords,
        id: &Arc<str>,
        principal: &Principal,
    ) -> Result<Option<SessionDigest>, SessionRefusal> {
        let failed = |error: &dyn std::fmt::Display| {
            tracing::warn!(%error, "failed to store an MCP session");
            SessionRefusal::NotStored
        };
        let agreed = self.negotiated.take_new(id);
        let agreed = agreed.ok_or_else(|| failed(&"no negotiated state"))?;
        let agreed = serde_json::to_value(agreed).map_err(|error| failed(&error))?;
        let own: Vec<SessionUse> = {
            let held = self.lock_entries();
            let own = held
                .values()
                .filter(|session| session.principal == *principal);
            own.map(|session| SessionUse {
                digest: session.digest,
                idle: session.last_used.elapsed(),
                is_streaming: session.open_streams > 0,
            })
            .collect()
        };
        match records
            .open(&digest_session_id(id), principal, agreed, &own)
            .await
        {
            Ok(SessionAdmission::Admitted) => Ok(None),
            Ok(SessionAdmission::Replacing(old)) => Ok(Some(old)),
            Ok(SessionAdmission::Refused) => Err(SessionRefusal::Full(self.max_per_principal)),
            Err(error) => Err(failed(&error)),
        }
    }

    /// What is said when no session may be added to those of this process.
    async fn capacity_error(&self) -> Option<Response> {
        let most = self.max_total;
        if self.manager.count().await < most {
            return None;
        }
        let message = format!("Service Unavailable: {most} MCP sessions are open; close one first");
        Some((StatusCode::SERVICE_UNAVAILABLE, message).into_response())
    }

    fn remove(&self, digest: &SessionDigest) -> Option<Arc<str>> {
        let mut held = self.lock_entries();
        let removed = held
            .extract_if(|_, session| session.digest == *digest)
            .next();
        removed.map(|(id, _)| id)
    }
}

/// Why there is no new session.
enum SessionRefusal {
    /// All that the principal may have are in use.
    Full(usize),
    /// It could not be written down.
    NotStored,
}

impl IntoResponse for SessionRefusal {
    fn into_response(self) -> Response {
        let (status, message) = match self {
            Self::Full(most) => (
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "Too Many Requests: all your {most} MCP sessions are in use; close one first"
                ),
            ),
            Self::NotStored => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Service Unavailable: MCP sessions cannot be stored now; try again".to_owned(),
            ),
        };
        (status, [(header::RETRY_AFTER, "5")], message).into_response()
    }
}

/// Lets a request through to its own session only, and no new one beyond the limits.
pub(super) async fn check_session(
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
    if let Some(id) = header_text(headers, SESSION_ID_HEADER).map(Arc::<str>::from)
        // Without sessions the header means nothing.
        && (!is_stateless(headers) || sessions.lock_entries().contains_key(&id))
    {
        return forward_to_session(sessions, id, principal, request, next).await;
    }
    if request.method() != Method::POST || is_stateless(headers) {
        return next.run(request).await;
    }
    if let Some(full) = sessions.capacity_error().await {
        return full;
    }
    let response = next.run(request).await;
    match header_text(response.headers(), SESSION_ID_HEADER) {
        Some(id) => match sessions.register(id, principal).await {
            Ok(()) => response,
            Err(refusal) => refusal.into_response(),
        },
        None => response,
    }
}

/// Lets a request through to its session.
async fn forward_to_session(
    sessions: Arc<Sessions>,
    id: Arc<str>,
    principal: Principal,
    mut request: Request,
    next: Next,
) -> Response {
    let closes = request.method() == Method::DELETE;
    let lent = match sessions.find(&id, &principal).await {
        Ok(SessionLookup::Local) => {
            request.extensions_mut().insert(InOpenSession);
            None
        }
        Ok(SessionLookup::NotFound) => {
            return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
        }
        Ok(SessionLookup::Recorded(_)) if closes => {
            sessions.end_record(&id, &principal).await;
            return StatusCode::NO_CONTENT.into_response();
        }
        Ok(SessionLookup::Recorded(agreed)) => {
            if let Some(full) = sessions.capacity_error().await {
                return full;
            }
            Some(sessions.negotiated.lease(&id, *agreed))
        }
        Err(error) => {
            tracing::warn!(%error, "failed to read an MCP session record");
            return SessionRefusal::NotStored.into_response();
        }
    };
    let mut response = next.run(request).await;
    drop(lent);
    if closes && response.status() == StatusCode::ACCEPTED {
        // It is closed, not about to be; clients take a 202 for a failure.
        *response.status_mut() = StatusCode::NO_CONTENT;
        sessions.end_record(&id, &principal).await;
    }
    response.map(|body| Body::new(SessionBody::new(body, sessions, id)))
}

/// An answer of a session, which counts as in use until it is sent.
struct SessionBody {
    body: Body,
    sessions: Arc<Sessions>,
    id: Arc<str>,
}

impl SessionBody {
    fn new(body: Body, sessions: Arc<Sessions>, id: Arc<str>) -> Self {
        if let Some(session) = sessions.lock_entries().get_mut(&id) {
            session.open_streams += 1;
        }
        Self { body, sessions, id }
    }
}

impl Drop for SessionBody {
    fn drop(&mut self) {
        if let Some(session) = self.sessions.lock_entries().get_mut(&self.id) {
            session.open_streams = session.open_streams.saturating_sub(1);
            session.last_used = Instant::now();
        }
    }
}

impl HttpBody for SessionBody {
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
    header_text(headers, VERSION_HEADER)
        .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
