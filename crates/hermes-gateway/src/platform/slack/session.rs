//! One open socket: what comes over it, and the signs that it is alive.

use std::{sync::atomic::Ordering, time::Duration};

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_websockets::Message;

use super::{
    identity::SlackIdentity,
    receive::{SlackReception, SlackSocketEndReason, SlackSocketNotice},
    socket::SlackSocket,
    updates::{SlackEnvelopeUse, classify_envelope},
};
use crate::platform::{AnnouncedEnd, wire_json::parse_wire_json};

/// A socket that is given up is waited for so long.
pub(super) const GOODBYE_LIMIT: Duration = Duration::from_secs(2);

/// What is read so soon after something else was dealt with may have waited for that.
const UNREAD_LIMIT: Duration = Duration::from_millis(50);

/// One socket while it is open.
pub(super) struct SlackSocketSession<'r, 'a> {
    reception: &'r SlackReception<'a>,
    id: u64,
    socket: SlackSocket,
    identity: &'r SlackIdentity,
    is_ready: bool,
    /// Since Slack said that it will close it: until when it is waited for, and why it goes.
    leaving: Option<(Instant, String)>,
    announced_end: Option<AnnouncedEnd<'a>>,
    opened_at: Instant,
    heard_at: Instant,
    /// The earliest time at which what was read last may have come: it may have waited while what came before it was
    /// dealt with.
    came_at: Instant,
}

impl<'r, 'a> SlackSocketSession<'r, 'a> {
    pub(super) fn new(
        reception: &'r SlackReception<'a>,
        id: u64,
        socket: SlackSocket,
        identity: &'r SlackIdentity,
    ) -> Self {
        let now = Instant::now();
        Self {
            reception,
            id,
            socket,
            identity,
            is_ready: false,
            leaving: None,
            announced_end: None,
            opened_at: now,
            heard_at: now,
            came_at: now,
        }
    }

    /// The earliest time at which the socket may have ended.
    pub(super) fn may_have_ended_at(&self) -> Instant {
        self.came_at
    }

    /// Kept until it is known whether something was missed.
    pub(super) fn take_announced_end(&mut self) -> Option<AnnouncedEnd<'a>> {
        self.announced_end.take()
    }

    /// Whether Slack has said hello.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Reads until the socket ends, or the gateway stops.
    pub(super) async fn run(&mut self) -> SlackSocketEndReason {
        let timeouts = self.reception.core.timeouts;
        let mut ticks = interval(timeouts.ping_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        // What was dealt with last, from when to when.
        let (mut began_at, mut done_at) = (Instant::now(), Instant::now());
        loop {
            let leave_at = self.leaving.as_ref().map(|(deadline, _)| *deadline);
            tokio::select! {
                () = self.reception.stop.cancelled() => {
                    self.say_goodbye().await;
                    return SlackSocketEndReason::Closed;
                }
                frame = self.socket.next() => {
                    let now = Instant::now();
                    self.heard_at = now;
                    let has_waited = now - done_at < UNREAD_LIMIT;
                    self.came_at = if has_waited { began_at } else { now };
                    began_at = now;
                    let ended = match frame {
                        Some(Ok(message)) if message.is_close() => Some(self.closed("Slack closed the socket")),
                        Some(Ok(message)) => self.take_message(&message).await,
                        Some(Err(error)) => Some(self.closed(&error.to_string())),
                        None => Some(self.closed("the connection was cut")),
                    };
                    if let Some(reason) = ended {
                        return reason;
                    }
                    done_at = Instant::now();
                }
                _ = ticks.tick() => {
                    if self.heard_at.elapsed() >= timeouts.silence {
                        return self.closed("nothing was heard from Slack, not even an answer to a ping");
                    }
                    if !self.is_ready && self.opened_at.elapsed() >= timeouts.silence {
                        return self.closed("Slack did not say hello");
                    }
                    let ping = self.socket.send(Message::ping("hermes"));
                    match timeout(timeouts.silence, ping).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return self.closed(&error.to_string()),
                        Err(_) => return self.closed("the connection takes nothing any more"),
                    }
                }
                () = sleep_until(leave_at.unwrap_or_else(Instant::now)), if leave_at.is_some() => {
                    self.say_goodbye().await;
                    return self.closed("Slack did not close the socket");
                }
            }
        }
    }

    /// The end of the socket: nothing to mend if Slack announced it.
    fn closed(&self, message: &str) -> SlackSocketEndReason {
        let (code, message) = match &self.leaving {
            None => ("disconnected", message.to_owned()),
            Some((_, reason)) if is_replacement(reason) => return SlackSocketEndReason::Closed,
            Some((_, reason)) if reason == "link_disabled" => (
                "socket_mode_disabled",
                "Socket Mode is switched off in the settings of the Slack app".to_owned(),
            ),
            Some((_, reason)) => ("disconnected", format!("Slack closed the socket: {reason}")),
        };
        SlackSocketEndReason::Lost { code, message }
    }

    async fn say_goodbye(&mut self) {
        // It may be gone already.
        let _ = timeout(GOODBYE_LIMIT, self.socket.close()).await;
    }

    async fn take_message(&mut self, message: &Message) -> Option<SlackSocketEndReason> {
        if self.is_ready {
            self.reception.health.record_ok();
        }
        let Some(text) = message.as_text() else {
            // Pings are answered by the socket itself.
            return None;
        };
        let envelope = match parse_wire_json(text.as_bytes()) {
            Ok(envelope) => envelope,
            Err(error) => {
                tracing::warn!(%error, "Slack sent a message that is not JSON");
                return None;
            }
        };
        match envelope["type"].as_str() {
            Some("hello") => self.take_hello(&envelope).await,
            Some("disconnect") => self.take_disconnect(&envelope).await,
            _ if envelope["envelope_id"].is_string() => return self.take_envelope(&envelope).await,
            kind => tracing::debug!(kind, "Slack sent an unknown kind of message"),
        }
        None
    }

    async fn take_hello(&mut self, hello: &Value) {
        let reception = self.reception;
        if self.is_ready {
            return;
        }
        self.is_ready = true;
        let own = reception.open.fetch_add(1, Ordering::Relaxed) + 1;
        *reception.last_ready.lock() = Instant::now();
        reception.health.record_ok();
        let count = hello["num_connections"].as_u64().unwrap_or_default();
        tracing::info!(account = %reception.core.account, connections = count, "Slack socket is open");
        if count > u64::try_from(own).unwrap_or(u64::MAX) {
            let message = format!(
                "two programs on one Slack app token share its events: Slack counts {count} connections, {own} of them are ours"
            );
            if reception
                .health
                .record_warning("shared_app_token", &message)
            {
                tracing::warn!(account = %reception.core.account, connections = count, own, "Slack app token is used by another program, events are shared");
            }
        } else {
            reception.health.clear_warning("shared_app_token");
        }
        reception.notify(SlackSocketNotice::Ready).await;
    }

    async fn take_disconnect(&mut self, message: &Value) {
        let reason = message["reason"].as_str().unwrap_or_default().to_owned();
        tracing::debug!(account = %self.reception.core.account, %reason, "Slack announces the end of a socket");
        let reception = self.reception;
        let deadline = Instant::now() + reception.core.timeouts.leaving;
        if self.announced_end.is_none() {
            self.announced_end = Some(reception.health.announce_end());
        }
        if is_replacement(&reason) {
            reception.notify(SlackSocketNotice::Leaving(self.id)).await;
        }
        self.leaving = Some((deadline, reason));
    }

    /// Stores an envelope, and acknowledges it if that went well.
    async fn take_envelope(&mut self, envelope: &Value) -> Option<SlackSocketEndReason> {
        let core = self.reception.core;
        if let SlackEnvelopeUse::Store(mut update) = classify_envelope(envelope, self.identity) {
            if update.payload["type"] == "events_api" {
                core.add_names(&mut update.payload).await;
            }
            let event_id = update.event_id.clone();
            if let Err(error) = self.reception.intake.store(vec![update], None).await {
                // Without an acknowledgement it comes again.
                tracing::error!(account = %core.account, event_id, %error, "Slack event was not stored, waiting for its redelivery");
                return None;
            }
        }
        let ack = json!({"envelope_id": envelope["envelope_id"]});
        let sent = self.socket.send(Message::text(ack.to_string()));
        match timeout(core.timeouts.silence, sent).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Some(self.closed(&error.to_string())),
            Err(_) => return Some(self.closed("the connection takes nothing any more")),
        }
        let reception = self.reception;
        reception.check_revocation(envelope).await
    }
}

/// Whether Slack wants another socket in place of this one. Else there is something wrong, and a pause is due.
fn is_replacement(reason: &str) -> bool {
    matches!(reason, "warning" | "refresh_requested")
}
