//! Faults of the gateway and of the API, on demand.

use std::time::Duration;

use serde_json::{Value, json};

use super::{DiscordServer, gateway::GatewayCommand, limits::OrderedLimit, world::MESSAGE_CONTENT};

impl DiscordServer {
    /// Asks all clients to connect again (op 7).
    pub fn request_reconnect(&self) {
        self.data().gateway.request_reconnect();
    }

    /// Declares all sessions invalid (op 9).
    pub fn invalidate_sessions(&self, is_resumable: bool) {
        self.data().gateway.invalidate(is_resumable);
    }

    /// Answers the next identify or resume with op 9.
    pub fn refuse_next_session(&self, is_resumable: bool) {
        self.data().gateway.invalid_next = Some(is_resumable);
    }

    /// Forgets sessions: they cannot be resumed.
    pub fn expire_sessions(&self) {
        self.data().gateway.expire_sessions();
    }

    /// Closes all connections with a code.
    pub fn close_sockets(&self, code: u16) {
        let data = self.data();
        data.gateway
            .command_all(|| GatewayCommand::Close(code, "As ordered."));
    }

    /// Cuts all connections.
    pub fn cut_sockets(&self) {
        self.data().gateway.command_all(|| GatewayCommand::Cut);
    }

    /// Whether heartbeats stay without an answer.
    pub fn lose_acks(&self, is_lost: bool) {
        self.data().gateway.loses_acks = is_lost;
    }

    /// For connections from now on.
    pub fn set_heartbeat_interval(&self, interval: Duration) {
        self.data().gateway.heartbeat_interval = interval;
    }

    /// The switch of the message content intent in the portal.
    pub fn allow_message_content(&self, is_allowed: bool) {
        let mut data = self.data();
        data.gateway.allowed_intents = if is_allowed { MESSAGE_CONTENT } else { 0 };
        data.application["flags"] = json!(if is_allowed { 1u64 << 19 } else { 0 });
    }

    /// The field "Interactions Endpoint URL" of the portal.
    pub fn set_interactions_endpoint(&self, url: Option<&str>) {
        self.data().application["interactions_endpoint_url"] = json!(url);
    }

    /// Another address for the gateway than this server's own.
    pub fn set_gateway_address(&self, address: &str) {
        self.data().gateway.address = Some(address.to_owned());
    }

    /// How many identifies Discord still accepts today.
    pub fn set_identifies_left(&self, count: u64) {
        self.data().gateway.identifies_left = count;
    }

    /// The token stops being valid, and connections are closed.
    pub fn revoke_token(&self) {
        let mut data = self.data();
        data.is_revoked = true;
        data.gateway
            .command_all(|| GatewayCommand::Close(4004, "Authentication failed."));
    }

    /// The next requests to a path with this text are too many.
    pub fn limit_requests(&self, path: &str, count: usize, wait: Duration) {
        self.add_limit(path, count, wait, false);
    }

    /// The next request is one too many for the whole bot.
    pub fn limit_globally(&self, wait: Duration) {
        self.add_limit("", 1, wait, true);
    }

    fn add_limit(&self, path: &str, count: usize, wait: Duration, is_global: bool) {
        self.data().limits.ordered.push(OrderedLimit {
            path: path.to_owned(),
            count,
            wait,
            is_global,
        });
    }

    /// So many messages per channel and time.
    pub fn set_message_limit(&self, count: u32, window: Duration) {
        self.data().limits.message_limit = Some((count, window));
    }

    /// The largest upload.
    pub fn set_max_file_bytes(&self, bytes: usize) {
        self.data().max_file_bytes = bytes;
    }

    /// How long an interaction waits for its first reply: 3 s otherwise.
    pub fn set_interaction_timeout(&self, timeout: Duration) {
        self.data().interaction_timeout = timeout;
    }

    /// An event of any kind.
    pub fn dispatch(&self, name: &str, data: &Value) {
        self.data().gateway.dispatch(name, data);
    }

    /// A payload that is not an event.
    pub fn send_payload(&self, payload: &Value) {
        self.data().gateway.send_all(payload);
    }

    /// Delivers the last event once more, with another number.
    pub fn repeat_last_event(&self) {
        let mut data = self.data();
        if let Some((name, event)) = data.gateway.last_event.clone() {
            data.gateway.dispatch(&name, &event);
        }
    }

    pub fn identifies(&self) -> u64 {
        self.data().gateway.identifies
    }

    pub fn resumes(&self) -> u64 {
        self.data().gateway.resumes
    }

    pub fn heartbeats(&self) -> u64 {
        self.data().gateway.heartbeats
    }

    /// The intents of the last identify.
    pub fn last_intents(&self) -> u64 {
        self.data().gateway.last_intents
    }

    pub fn open_sockets(&self) -> usize {
        self.data().gateway.open_count()
    }

    /// Connections that have a session.
    pub fn ready_sockets(&self) -> usize {
        self.data().gateway.ready_count()
    }
}
