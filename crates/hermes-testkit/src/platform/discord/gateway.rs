//! The gateway, version 10: sessions, heartbeats, events with numbers, resuming, and its faults.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{extract::Request, response::Response};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};
use tokio_websockets::{CloseCode, Message};

use super::world::{DiscordData, MESSAGE_CONTENT, PRIVILEGED};
use crate::platform::{
    server::PlatformState,
    websocket::{self, PlatformSocket},
};

const DISPATCH: u64 = 0;
const HEARTBEAT: u64 = 1;
const IDENTIFY: u64 = 2;
const PRESENCE: u64 = 3;
const VOICE: u64 = 4;
const RESUME: u64 = 6;
const RECONNECT: u64 = 7;
const MEMBERS: u64 = 8;
const INVALID_SESSION: u64 = 9;
const HELLO: u64 = 10;
const HEARTBEAT_ACK: u64 = 11;

/// All intents that exist.
const KNOWN_INTENTS: u64 = ((1 << 17) - 1) | (1 << 20) | (1 << 21) | (1 << 24) | (1 << 25);

/// Why the gateway ends a connection.
type CloseReason = (u16, &'static str);

/// Sessions and connections.
pub(super) struct GatewayTable {
    sessions: BTreeMap<String, GatewaySession>,
    connections: BTreeMap<u64, mpsc::UnboundedSender<GatewayCommand>>,
    last_connection: u64,
    pub(super) heartbeat_interval: Duration,
    /// Heartbeats are not acknowledged.
    pub(super) loses_acks: bool,
    /// The answer to the next resume or identify is op 9, resumable or not.
    pub(super) invalid_next: Option<bool>,
    /// Intents that need the portal, and have it.
    pub(super) allowed_intents: u64,
    pub(super) identifies: u64,
    pub(super) resumes: u64,
    pub(super) heartbeats: u64,
    /// Identifies that are left today.
    pub(super) identifies_left: u64,
    /// Intents of the last identify.
    pub(super) last_intents: u64,
    /// Where clients are sent, if it is not here.
    pub(super) address: Option<String>,
    /// The last event, to repeat it.
    pub(super) last_event: Option<(String, Value)>,
}

struct GatewaySession {
    intents: u64,
    sequence: u64,
    /// All events, for those who resume.
    log: Vec<(u64, String)>,
    connection: Option<u64>,
}

pub(super) enum GatewayCommand {
    Send(String),
    Close(u16, &'static str),
    /// The connection is cut without a word.
    Cut,
}

impl Default for GatewayTable {
    fn default() -> Self {
        Self {
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            last_connection: 0,
            heartbeat_interval: Duration::from_millis(41_250),
            loses_acks: false,
            invalid_next: None,
            allowed_intents: MESSAGE_CONTENT,
            identifies: 0,
            resumes: 0,
            heartbeats: 0,
            identifies_left: 1000,
            last_intents: 0,
            address: None,
            last_event: None,
        }
    }
}

impl GatewayTable {
    /// Sends an event to each session that asked for it, and remembers it for those that resume.
    pub(super) fn dispatch(&mut self, name: &str, data: &Value) {
        self.last_event = Some((name.to_owned(), data.clone()));
        let needed = needed_intents(name, data);
        for session in self.sessions.values_mut() {
            if needed != 0 && session.intents & needed == 0 {
                continue;
            }
            session.sequence += 1;
            let data = visible_data(session.intents, name, data);
            let event =
                json!({"op": DISPATCH, "t": name, "s": session.sequence, "d": data}).to_string();
            session.log.push((session.sequence, event.clone()));
            let connection = session.connection;
            let outlet = connection.and_then(|id| self.connections.get(&id));
            if let Some(outlet) = outlet {
                let _ = outlet.send(GatewayCommand::Send(event));
            }
        }
    }

    /// To every open connection.
    pub(super) fn command_all(&self, make: impl Fn() -> GatewayCommand) {
        for outlet in self.connections.values() {
            let _ = outlet.send(make());
        }
    }

    pub(super) fn send_all(&self, payload: &Value) {
        self.command_all(|| GatewayCommand::Send(payload.to_string()));
    }

    pub(super) fn request_reconnect(&self) {
        self.send_all(&json!({"op": RECONNECT, "d": null}));
    }

    pub(super) fn invalidate(&mut self, is_resumable: bool) {
        if !is_resumable {
            self.sessions.clear();
        }
        self.send_all(&json!({"op": INVALID_SESSION, "d": is_resumable}));
    }

    /// Sessions can no longer be resumed.
    pub(super) fn expire_sessions(&mut self) {
        self.sessions.clear();
    }

    /// All connections were closed with the server.
    pub(super) fn forget_connections(&mut self) {
        self.connections.clear();
        for session in self.sessions.values_mut() {
            session.connection = None;
        }
    }

    /// The address that clients get.
    pub(super) fn url(&self, server: &PlatformState) -> String {
        let here = || server.socket_origin();
        self.address.clone().unwrap_or_else(here)
    }

    pub(super) fn open_count(&self) -> usize {
        self.connections.len()
    }

    /// Connections with a session.
    pub(super) fn ready_count(&self) -> usize {
        let ready = self.sessions.values();
        ready.filter(|session| session.connection.is_some()).count()
    }
}

/// Which intents show an event; 0 for those that everybody gets.
fn needed_intents(name: &str, data: &Value) -> u64 {
    let is_direct = data["guild_id"].is_null();
    match name {
        "GUILD_CREATE" | "GUILD_UPDATE" | "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE"
        | "THREAD_UPDATE" | "GUILD_ROLE_CREATE" => 1,
        "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" if is_direct => 1 << 12,
        "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" => 1 << 9,
        "MESSAGE_REACTION_ADD" if is_direct => 1 << 13,
        "MESSAGE_REACTION_ADD" => 1 << 10,
        "TYPING_START" if is_direct => 1 << 14,
        "TYPING_START" => 1 << 11,
        _ => 0,
    }
}

/// Without the intent, texts of others are empty unless they are for the bot.
fn visible_data(intents: u64, name: &str, data: &Value) -> Value {
    let mut data = data.clone();
    let is_message = matches!(name, "MESSAGE_CREATE" | "MESSAGE_UPDATE");
    let is_for_bot = data["guild_id"].is_null()
        || data["author"]["id"] == super::DISCORD_BOT
        || data["mentions"]
            .as_array()
            .is_some_and(|users| users.iter().any(|user| user["id"] == super::DISCORD_BOT));
    if is_message && intents & MESSAGE_CONTENT == 0 && !is_for_bot {
        data["content"] = json!("");
        data["attachments"] = json!([]);
        data["components"] = json!([]);
    }
    data
}

/// Answers the opening handshake of the gateway.
pub(in crate::platform) fn accept_gateway(
    server: &Arc<PlatformState>,
    request: Request,
) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let is_compressed = query.contains("compress=zlib-stream");
    let shared = Arc::clone(server);
    websocket::accept(request, move |socket| async move {
        serve_connection(&shared, socket, is_compressed).await;
    })
}

/// One connection.
struct GatewayConnection<'s> {
    server: &'s PlatformState,
    id: u64,
    socket: PlatformSocket,
    zlib: Option<StoredZlib>,
    session: Option<String>,
}

async fn serve_connection(server: &PlatformState, socket: PlatformSocket, is_compressed: bool) {
    let (outlet, mut commands) = mpsc::unbounded_channel();
    let (id, interval) = {
        let gateway = &mut server.discord.lock().gateway;
        gateway.last_connection += 1;
        let id = gateway.last_connection;
        gateway.connections.insert(id, outlet);
        (id, gateway.heartbeat_interval)
    };
    let mut connection = GatewayConnection {
        server,
        id,
        socket,
        zlib: is_compressed.then(StoredZlib::default),
        session: None,
    };
    let client_close = connection.converse(&mut commands, interval).await;
    let mut data = server.discord.lock();
    data.gateway.connections.remove(&id);
    if let Some(name) = &connection.session {
        // A client that says goodbye has no session afterwards.
        if matches!(client_close, Some(1000 | 1001)) {
            data.gateway.sessions.remove(name);
        } else if let Some(session) = data.gateway.sessions.get_mut(name)
            && session.connection == Some(id)
        {
            session.connection = None;
        }
    }
}

impl GatewayConnection<'_> {
    /// Returns the code that the client closed with.
    async fn converse(
        &mut self,
        commands: &mut mpsc::UnboundedReceiver<GatewayCommand>,
        interval: Duration,
    ) -> Option<u16> {
        let millis = u64::try_from(interval.as_millis()).unwrap_or_default();
        let hello = json!({"op": HELLO, "d": {"heartbeat_interval": millis}, "t": null, "s": null});
        self.send(hello.to_string()).await?;
        let mut heard_at = Instant::now();
        loop {
            tokio::select! {
                command = commands.recv() => match command? {
                    GatewayCommand::Send(text) => self.send(text).await?,
                    GatewayCommand::Close(code, reason) => {
                        self.close((code, reason)).await;
                        return None;
                    }
                    GatewayCommand::Cut => return None,
                },
                frame = self.socket.next() => {
                    let message = frame?.ok()?;
                    if let Some((code, _)) = message.as_close() {
                        let code = code.into();
                        self.await_end().await;
                        return Some(code);
                    }
                    heard_at = Instant::now();
                    // Some clients send their JSON as bytes.
                    if !message.is_text() && !message.is_binary() {
                        continue;
                    }
                    match self.read_payload(message.as_payload()) {
                        Ok(replies) => for reply in replies {
                            self.send(reply).await?;
                        },
                        Err(reason) => {
                            self.close(reason).await;
                            return None;
                        }
                    }
                },
                () = tokio::time::sleep_until(heard_at + interval * 2) => {
                    self.close((4009, "Session timed out.")).await;
                    return None;
                }
            }
        }
    }

    async fn send(&mut self, text: String) -> Option<()> {
        let message = match &mut self.zlib {
            Some(zlib) => Message::binary(zlib.encode(text.as_bytes())),
            None => Message::text(text),
        };
        self.socket.send(message).await.ok()
    }

    async fn close(&mut self, (code, reason): CloseReason) {
        let code = CloseCode::try_from(code).ok();
        let _ = self.socket.send(Message::close(code, reason)).await;
        self.await_end().await;
    }

    /// Reads until both sides have said that they close.
    async fn await_end(&mut self) {
        let end = async { while let Some(Ok(_)) = self.socket.next().await {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), end).await;
    }

    fn read_payload(&mut self, bytes: &[u8]) -> Result<Vec<String>, CloseReason> {
        let payload: Value =
            serde_json::from_slice(bytes).map_err(|_| (4002, "Error while decoding payload."))?;
        let mut data = self.server.discord.lock();
        match payload["op"].as_u64() {
            Some(HEARTBEAT) => {
                data.gateway.heartbeats += 1;
                let ack = json!({"op": HEARTBEAT_ACK, "d": null}).to_string();
                let is_lost = data.gateway.loses_acks;
                Ok(if is_lost { Vec::new() } else { vec![ack] })
            }
            Some(IDENTIFY) if self.session.is_some() => Err((4005, "Already authenticated.")),
            Some(IDENTIFY) => {
                let (name, replies) = identify(self.server, &mut data, &payload["d"], self.id)?;
                self.session = name;
                Ok(replies)
            }
            Some(RESUME) => {
                let (name, replies) = resume(self.server, &mut data, &payload["d"], self.id)?;
                self.session = name;
                Ok(replies)
            }
            Some(PRESENCE | VOICE | MEMBERS) if self.session.is_none() => {
                Err((4003, "Not authenticated."))
            }
            Some(PRESENCE | VOICE | MEMBERS) => Ok(Vec::new()),
            _ => Err((4001, "Unknown opcode.")),
        }
    }
}

/// The name of the session, and what is sent.
type SessionOpening = Result<(Option<String>, Vec<String>), CloseReason>;

fn is_token(server: &PlatformState, data: &DiscordData, given: &Value) -> bool {
    let given = given.as_str().unwrap_or_default();
    let given = given.strip_prefix("Bot ").unwrap_or(given);
    given == server.token && !data.is_revoked
}

fn invalid_session(is_resumable: bool) -> (Option<String>, Vec<String>) {
    let payload = json!({"op": INVALID_SESSION, "d": is_resumable});
    (None, vec![payload.to_string()])
}

fn identify(
    server: &PlatformState,
    data: &mut DiscordData,
    asked: &Value,
    connection: u64,
) -> SessionOpening {
    data.gateway.identifies += 1;
    data.gateway.identifies_left = data.gateway.identifies_left.saturating_sub(1);
    if !is_token(server, data, &asked["token"]) {
        return Err((4004, "Authentication failed."));
    }
    let intents = asked["intents"]
        .as_u64()
        .filter(|intents| intents & !KNOWN_INTENTS == 0)
        .ok_or((4013, "Invalid intent(s)."))?;
    data.gateway.last_intents = intents;
    if intents & PRIVILEGED & !data.gateway.allowed_intents != 0 {
        return Err((4014, "Disallowed intent(s)."));
    }
    if let Some(is_resumable) = data.gateway.invalid_next.take() {
        return Ok(invalid_session(is_resumable));
    }
    let name = format!("session{}", server.next_id());
    let guilds: Vec<String> = data.guilds.keys().cloned().collect();
    let unavailable: Vec<Value> = guilds
        .iter()
        .map(|id| json!({"id": id, "unavailable": true}))
        .collect();
    let ready = json!({
        "v": 10, "user": data.bot, "guilds": unavailable, "session_id": name, "session_type": "normal",
        "resume_gateway_url": data.gateway.url(server), "shard": asked["shard"],
        "application": {"id": data.application["id"], "flags": data.application["flags"]},
        "user_settings": {}, "relationships": [], "private_channels": [], "presences": [], "geo_ordered_rtc_regions": [],
        "_trace": [],
    });
    let mut session = GatewaySession {
        intents,
        sequence: 0,
        log: Vec::new(),
        connection: Some(connection),
    };
    let mut events = vec![("READY", ready)];
    if intents & 1 != 0 {
        let created = guilds.iter().filter_map(|id| data.guild_value(id));
        events.extend(created.map(|guild| ("GUILD_CREATE", guild)));
    }
    let mut replies = Vec::new();
    for (event, value) in events {
        session.sequence += 1;
        let text =
            json!({"op": DISPATCH, "t": event, "s": session.sequence, "d": value}).to_string();
        session.log.push((session.sequence, text.clone()));
        replies.push(text);
    }
    data.gateway.sessions.insert(name.clone(), session);
    Ok((Some(name), replies))
}

fn resume(
    server: &PlatformState,
    data: &mut DiscordData,
    asked: &Value,
    connection: u64,
) -> SessionOpening {
    if !is_token(server, data, &asked["token"]) {
        return Err((4004, "Authentication failed."));
    }
    if let Some(is_resumable) = data.gateway.invalid_next.take() {
        return Ok(invalid_session(is_resumable));
    }
    let name = asked["session_id"].as_str().unwrap_or_default();
    let sequence = asked["seq"].as_u64().unwrap_or_default();
    let Some(session) = data.gateway.sessions.get_mut(name) else {
        return Ok(invalid_session(false));
    };
    if sequence > session.sequence {
        return Err((4007, "Invalid seq."));
    }
    // A connection that its client left may be read late: the session is the later one's.
    if session.connection.is_some_and(|holder| holder > connection) {
        return Ok(invalid_session(true));
    }
    session.connection = Some(connection);
    let missed = session.log.iter().filter(|(number, _)| *number > sequence);
    let mut replies: Vec<String> = missed.map(|(_, event)| event.clone()).collect();
    session.sequence += 1;
    let resumed =
        json!({"op": DISPATCH, "t": "RESUMED", "s": session.sequence, "d": {"_trace": []}});
    session.log.push((session.sequence, resumed.to_string()));
    replies.push(resumed.to_string());
    data.gateway.resumes += 1;
    Ok((Some(name.to_owned()), replies))
}

/// The stream that clients ask for with `compress=zlib-stream`, in blocks that are stored as they are: valid for every
/// decompressor, and no library is needed. It lasts as long as its connection.
#[derive(Default)]
struct StoredZlib {
    has_begun: bool,
}

impl StoredZlib {
    /// A message, flushed.
    fn encode(&mut self, message: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(message.len() + 16);
        if !self.has_begun {
            self.has_begun = true;
            bytes.extend([0x78, 0x01]);
        }
        // The empty block at the end is the sign of a flush.
        for block in message.chunks(0xffff).chain([[].as_slice()]) {
            let length = u16::try_from(block.len()).unwrap_or_default();
            bytes.push(0);
            bytes.extend(length.to_le_bytes());
            bytes.extend((!length).to_le_bytes());
            bytes.extend(block);
        }
        bytes
    }
}
