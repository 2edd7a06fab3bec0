//! Socket Mode: connections, the envelopes that go over them, acknowledgements and redeliveries.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use axum::{
    extract::Request,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_websockets::{CloseCode, Message};

use super::workspace::{SLACK_APP, SlackWorkspaceState};
use crate::platform::{
    server::PlatformState,
    websocket::{self, PlatformSocket},
};

/// How often Slack asks whether a client is there.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// An event is sent again so often.
const MAX_RETRIES: u64 = 3;

/// The open sockets of the app, and what became of envelopes.
#[derive(Default)]
pub(super) struct SlackSocketTable {
    tickets: BTreeSet<String>,
    open: BTreeMap<u64, mpsc::UnboundedSender<SlackSocketCommand>>,
    last_socket: u64,
    /// The socket that got the last envelope.
    last_used: u64,
    /// Sockets that were ever opened.
    pub(super) opened: u64,
    pub(super) acknowledged: Vec<Value>,
    /// Envelopes that were sent, in their order, redeliveries among them.
    pub(super) sent: Vec<Value>,
    /// Events that nobody was there for.
    pub(super) lost: Vec<Value>,
}

enum SlackSocketCommand {
    Deliver(Value),
    /// `disconnect` with a reason; the socket is closed after so long.
    Disconnect {
        reason: String,
        close_after: Duration,
    },
    /// The connection is cut.
    Cut,
    /// It stays open, and nothing is read or written any more.
    Freeze,
}

impl SlackSocketTable {
    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    pub(super) fn disconnect_all(&self, reason: &str, close_after: Duration) {
        for sender in self.open.values() {
            let reason = reason.to_owned();
            let _ = sender.send(SlackSocketCommand::Disconnect {
                reason,
                close_after,
            });
        }
    }

    pub(super) fn cut_all(&self) {
        for sender in self.open.values() {
            let _ = sender.send(SlackSocketCommand::Cut);
        }
    }

    pub(super) fn freeze_all(&self) {
        for sender in self.open.values() {
            let _ = sender.send(SlackSocketCommand::Freeze);
        }
    }

    /// All of them were closed with the server.
    pub(super) fn forget_open(&mut self) {
        self.open.clear();
    }

    /// The next socket in turn: with several open ones, each gets a part of the events.
    fn choose(&mut self) -> Option<&mpsc::UnboundedSender<SlackSocketCommand>> {
        let after = self.open.range(self.last_used + 1..).next();
        let (id, sender) = after.or_else(|| self.open.iter().next())?;
        self.last_used = *id;
        Some(sender)
    }

    /// Sends an envelope over one of the sockets.
    pub(super) fn deliver(&mut self, envelope: Value) {
        let copy = envelope.clone();
        match self.choose() {
            Some(sender) if sender.send(SlackSocketCommand::Deliver(envelope)).is_ok() => {
                self.sent.push(copy);
            }
            _ => self.lost.push(copy),
        }
    }
}

/// `apps.connections.open`.
pub(super) fn open_connection(server: &PlatformState) -> Value {
    let mut state = server.slack.lock();
    let ticket = state.next_name("ticket-");
    state.sockets.tickets.insert(ticket.clone());
    let url = format!(
        "{}/link/?ticket={ticket}&app_id={SLACK_APP}",
        server.socket_origin()
    );
    json!({"url": url})
}

/// Answers the opening handshake of a WebSocket.
pub(in crate::platform) fn accept_socket(
    server: &Arc<PlatformState>,
    request: Request,
) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let ticket = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("ticket="))
        .unwrap_or_default();
    // A ticket is good for one connection.
    if !server.slack.lock().sockets.tickets.remove(ticket) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let shared = Arc::clone(server);
    websocket::accept(request, move |socket| async move {
        serve_socket(&shared, socket).await;
    })
}

/// An envelope that is not acknowledged yet.
struct PendingSlackEnvelope {
    envelope: Value,
    deadline: Instant,
}

async fn serve_socket(server: &PlatformState, mut socket: PlatformSocket) {
    let (sender, mut commands) = mpsc::unbounded_channel();
    let (id, hello) = {
        let mut state = server.slack.lock();
        let sockets = &mut state.sockets;
        sockets.last_socket += 1;
        sockets.opened += 1;
        let id = sockets.last_socket;
        sockets.open.insert(id, sender);
        let hello = json!({
            "type": "hello", "num_connections": sockets.open.len(),
            "debug_info": {"host": "applink-test", "build_number": 10, "approximate_connection_time": 18060},
            "connection_info": {"app_id": SLACK_APP},
        });
        (id, hello)
    };
    let mut pending = BTreeMap::new();
    if send(&mut socket, &hello).await {
        converse(server, &mut socket, &mut commands, &mut pending).await;
    }
    server.slack.lock().sockets.open.remove(&id);
    drop(socket);
    // What was sent and is not acknowledged is sent over another socket, once its time has come.
    while let Ok(SlackSocketCommand::Deliver(envelope)) = commands.try_recv() {
        add_pending(server, &mut pending, envelope);
    }
    for (_, unanswered) in pending {
        sleep_until(unanswered.deadline).await;
        redeliver(&mut server.slack.lock(), &unanswered.envelope);
    }
}

async fn converse(
    server: &PlatformState,
    socket: &mut PlatformSocket,
    commands: &mut mpsc::UnboundedReceiver<SlackSocketCommand>,
    pending: &mut BTreeMap<String, PendingSlackEnvelope>,
) {
    let mut next_ping = Instant::now() + PING_INTERVAL;
    let mut closing_at: Option<Instant> = None;
    let mut is_frozen = false;
    loop {
        let next_deadline = pending.values().map(|envelope| envelope.deadline).min();
        let next = [next_deadline, closing_at, Some(next_ping)];
        let wake_at = next.into_iter().flatten().min().unwrap_or(next_ping);
        tokio::select! {
            command = commands.recv() => match command {
                Some(SlackSocketCommand::Deliver(envelope)) => {
                    let is_sent = is_frozen || send(socket, &envelope).await;
                    add_pending(server, pending, envelope);
                    if !is_sent {
                        return;
                    }
                }
                Some(SlackSocketCommand::Disconnect { reason, close_after }) => {
                    let message = json!({
                        "type": "disconnect", "reason": reason, "debug_info": {"host": "applink-test"},
                    });
                    if !send(socket, &message).await {
                        return;
                    }
                    closing_at = Some(Instant::now() + close_after);
                }
                Some(SlackSocketCommand::Freeze) => is_frozen = true,
                Some(SlackSocketCommand::Cut) | None => return,
            },
            frame = socket.next(), if !is_frozen => match frame {
                Some(Ok(message)) if message.is_close() => return,
                Some(Ok(message)) => read_ack(server, pending, &message),
                Some(Err(_)) | None => return,
            },
            () = sleep_until(wake_at) => {
                let now = Instant::now();
                if closing_at.is_some_and(|at| at <= now) {
                    let _ = socket.send(Message::close(Some(CloseCode::NORMAL_CLOSURE), "")).await;
                    return;
                }
                if next_ping <= now {
                    next_ping = now + PING_INTERVAL;
                    if !is_frozen && socket.send(Message::ping("Ping from applink-test")).await.is_err() {
                        return;
                    }
                }
                let late: Vec<String> = pending
                    .iter()
                    .filter(|(_, envelope)| envelope.deadline <= now)
                    .map(|(id, _)| id.clone())
                    .collect();
                for id in late {
                    if let Some(unanswered) = pending.remove(&id) {
                        redeliver(&mut server.slack.lock(), &unanswered.envelope);
                    }
                }
            }
        }
    }
}

async fn send(socket: &mut PlatformSocket, message: &Value) -> bool {
    socket
        .send(Message::text(message.to_string()))
        .await
        .is_ok()
}

fn add_pending(
    server: &PlatformState,
    pending: &mut BTreeMap<String, PendingSlackEnvelope>,
    envelope: Value,
) {
    let id = envelope["envelope_id"].as_str().unwrap_or_default();
    let deadline = Instant::now() + server.slack.lock().ack_timeout;
    pending.insert(id.to_owned(), PendingSlackEnvelope { envelope, deadline });
}

fn read_ack(
    server: &PlatformState,
    pending: &mut BTreeMap<String, PendingSlackEnvelope>,
    message: &Message,
) {
    let Some(text) = message.as_text() else {
        return;
    };
    let ack: Value = serde_json::from_str(text).unwrap_or_default();
    let id = ack["envelope_id"].as_str().unwrap_or_default();
    if let Some(answered) = pending.remove(id) {
        let mut record = answered.envelope;
        record["response"] = ack["payload"].clone();
        server.slack.lock().sockets.acknowledged.push(record);
    }
}

/// Sends an event again. Pressed buttons and commands are not: whoever did it sees that nobody answered.
fn redeliver(state: &mut SlackWorkspaceState, envelope: &Value) {
    let attempt = envelope["retry_attempt"].as_u64().unwrap_or_default();
    if envelope["type"] != "events_api" || attempt >= MAX_RETRIES {
        state.sockets.lost.push(envelope.clone());
        return;
    }
    let again = repeat_envelope(state, envelope, "timeout");
    state.sockets.deliver(again);
}

/// The same event in a new envelope.
pub(super) fn repeat_envelope(
    state: &mut SlackWorkspaceState,
    envelope: &Value,
    reason: &str,
) -> Value {
    let attempt = envelope["retry_attempt"].as_u64().unwrap_or_default();
    let mut again = envelope.clone();
    again["envelope_id"] = json!(state.next_name("env-"));
    again["retry_attempt"] = json!(attempt + 1);
    again["retry_reason"] = json!(reason);
    again
}
