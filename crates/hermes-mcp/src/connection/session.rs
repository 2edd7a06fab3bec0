//! One live MCP session: the peer to send requests to, and the handler that takes what the server sends.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use hermes_config::{
    ServerName,
    sync::{Mutex, MutexGuard},
};
use rmcp::{
    RoleClient,
    model::{ProgressToken, RequestId, ServerPeerInfo},
    service::Peer,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    connection::era::Era,
    process::sandbox::AppliedSandbox,
    server_request::{CallId, ConversationId, RequestOrigin},
};

mod handler;

pub(crate) use handler::SessionHandler;

pub(crate) use crate::transport::health::ConnectionHealth;

/// A live session with a server.
pub struct McpSession {
    pub server: ServerName,
    /// Where requests go.
    pub peer: Peer<RoleClient>,
    pub era: Era,
    /// What the server said of itself.
    pub info: Arc<ServerPeerInfo>,
    /// The process, for local servers.
    pub pid: Option<u32>,
    pub confined: Option<Arc<AppliedSandbox>>,
    /// When it became usable.
    pub since: Instant,
    /// Ends when the session is lost or stopped.
    pub ended: CancellationToken,
    /// Calls, questions and changes under way.
    pub(crate) activity: Arc<SessionActivity>,
    /// Answers what the server asks during a call.
    pub(crate) handler: SessionHandler,
}

impl McpSession {
    /// Whether requests can still be sent; a broken session is known here before its connection has noticed. While it is
    /// in doubt, the connection finds out.
    pub(crate) fn is_open(&self) -> bool {
        !self.ended.is_cancelled()
            && !self.peer.is_transport_closed()
            && !self.activity.health.is_suspect()
    }
}

impl std::fmt::Debug for McpSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("server", &self.server)
            .field("era", &self.era)
            .finish_non_exhaustive()
    }
}

/// News for one call in flight.
#[derive(Debug, Clone)]
pub(crate) enum CallEvent {
    Progress(Progress),
    /// A person is being asked: the timeout is paused.
    InputStarted,
    /// The person has answered.
    InputFinished,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// So far.
    pub progress: f64,
    /// Of how much, where known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

#[derive(Debug)]
struct InFlightCall {
    request: RequestId,
    call: CallId,
    conversation: Option<ConversationId>,
    events: mpsc::UnboundedSender<CallEvent>,
}

/// Calls in flight, announced changes and health of a session: shared by its handler and its connection.
#[derive(Debug)]
pub(crate) struct SessionActivity {
    server: ServerName,
    calls: Mutex<HashMap<ProgressToken, InFlightCall>>,
    pub(crate) changes: ListChanges,
    pub(crate) health: Arc<ConnectionHealth>,
    last_use: Mutex<Instant>,
    in_flight: AtomicU64,
    resource_updates: tokio::sync::broadcast::Sender<String>,
}

/// Which lists the server said have changed; bursts collapse into one wake-up.
#[derive(Debug, Default)]
pub(crate) struct ListChanges {
    pub(crate) tools: AtomicBool,
    pub(crate) resources: AtomicBool,
    pub(crate) prompts: AtomicBool,
    pub(crate) wake: Notify,
    /// The start is over: what was put off until then is to be done.
    pub(crate) deferred_work: AtomicBool,
    /// How often the tools were said to have changed.
    announced: AtomicU64,
    /// How many of these announcements the published list takes into account.
    listed: watch::Sender<u64>,
}

impl ListChanges {
    pub(crate) fn mark(&self, list: &AtomicBool) {
        if std::ptr::eq(list, &raw const self.tools) {
            self.announced.fetch_add(1, Ordering::AcqRel);
        }
        list.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn mark_all(&self) {
        for list in [&self.tools, &self.resources, &self.prompts] {
            self.mark(list);
        }
    }

    /// How many announcements a listing that begins now takes into account.
    pub(crate) fn announced(&self) -> u64 {
        self.announced.load(Ordering::Acquire)
    }

    /// Says that a listing is published.
    pub(crate) fn mark_listed(&self, announced: u64) {
        self.listed.send_replace(announced);
    }

    /// Waits until every change of the tools that was announced so far is published.
    pub(crate) async fn wait_until_listed(&self) {
        let announced = self.announced();
        let mut listed = self.listed.subscribe();
        if *listed.borrow() < announced {
            // Perhaps it was tried, and failed.
            self.tools.store(true, Ordering::Release);
            self.wake.notify_one();
        }
        // The sender lives as long as we do.
        let _ = listed.wait_for(|listed| *listed >= announced).await;
    }
}

impl SessionActivity {
    pub(crate) fn new(
        server: ServerName,
        resource_updates: tokio::sync::broadcast::Sender<String>,
    ) -> Self {
        Self {
            server,
            calls: Mutex::default(),
            changes: ListChanges::default(),
            health: Arc::default(),
            last_use: Mutex::new(Instant::now()),
            in_flight: AtomicU64::new(0),
            resource_updates,
        }
    }

    /// Counts a call as under way until the guard is dropped.
    pub(crate) fn start_call(self: &Arc<Self>) -> InFlightGuard {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlightGuard(self.clone())
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Acquire)
    }

    pub(crate) fn idle_since(&self) -> Instant {
        *self.last_use.lock()
    }

    /// Routes news of this request to its call until the guard is dropped.
    pub(crate) fn subscribe_call(
        self: &Arc<Self>,
        token: ProgressToken,
        request: RequestId,
        call: CallId,
        conversation: Option<ConversationId>,
        event_sender: mpsc::UnboundedSender<CallEvent>,
    ) -> CallSubscription {
        self.lock().insert(
            token.clone(),
            InFlightCall {
                request,
                call,
                conversation,
                events: event_sender,
            },
        );
        CallSubscription {
            activity: self.clone(),
            token,
        }
    }

    pub(crate) fn send_progress(&self, token: &ProgressToken, progress: Progress) {
        if let Some(call) = self.lock().get(token) {
            let _ = call.events.send(CallEvent::Progress(progress));
        }
    }

    /// Finds the call that caused a question: by the request it came with, else the newest one under way.
    fn request_origin(
        &self,
        origin: Option<&RequestId>,
    ) -> (RequestOrigin, Option<mpsc::UnboundedSender<CallEvent>>) {
        let calls = self.lock();
        let cause = match origin {
            Some(id) => calls.values().find(|call| call.request == *id),
            None => calls.values().max_by_key(|call| call.call),
        };
        let origin = RequestOrigin {
            server: self.server.clone(),
            call: cause.map(|call| call.call),
            conversation: cause.and_then(|call| call.conversation.clone()),
        };
        (origin, cause.map(|call| call.events.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProgressToken, InFlightCall>> {
        self.calls.lock()
    }
}

/// A call under way.
pub(crate) struct InFlightGuard(Arc<SessionActivity>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        *self.0.last_use.lock() = Instant::now();
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A request whose progress is followed.
pub(crate) struct CallSubscription {
    activity: Arc<SessionActivity>,
    token: ProgressToken,
}

impl Drop for CallSubscription {
    fn drop(&mut self) {
        self.activity.lock().remove(&self.token);
    }
}
