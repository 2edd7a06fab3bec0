//! Receiving: one connection after the other to Discord's gateway.
//!
//! Each connection is a fresh [`Shard`], made from the position that was stored: twilight counts events when it reads
//! them, and only those that are in the inbox may count. So a full disk or a crash loses nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt as _;
use hermes_config::random::random_number;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use twilight_gateway::{
    ConfigBuilder, Intents, Message, Session, Shard, ShardId, error::ReceiveMessageErrorType,
};

use super::{
    DiscordClient,
    connection_end::ConnectionEnd,
    cursor::{DiscordCursor, ImmediateQueue, ResumableSession, check_certificates},
    decode::build_update,
    relay::SocketRelay,
};
use crate::{
    platform::{
        ConnectionState, FatalError, PlatformHealth, UpdateIntake, backoff::ReconnectBackoff,
        wire_json::parse_wire_json,
    },
    send::root_cause,
};

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
/// Identifies that are left for other programs and for tomorrow's mistakes.
const SPARE_IDENTIFIES: u64 = 100;

/// What a connection needs.
struct GatewayReceiver<'r> {
    client: &'r DiscordClient,
    intake: &'r dyn UpdateIntake,
    health: &'r PlatformHealth,
    stop: CancellationToken,
    cursor: DiscordCursor,
    /// Whether a session worked on this connection.
    was_ready: bool,
    /// The last attempt with the address for resuming failed.
    avoids_resume_url: bool,
}

/// A connection, with what it goes through.
struct OpenShard {
    shard: Shard<ImmediateQueue>,
    /// It ends with the connection.
    relay: Option<SocketRelay>,
}

/// Receives until `stop` is cancelled.
pub(super) async fn receive(
    client: &DiscordClient,
    intake: &dyn UpdateIntake,
    health: &PlatformHealth,
    stop: CancellationToken,
) -> Result<(), FatalError> {
    let timing = client.timing;
    let mut backoff = ReconnectBackoff::new(timing.first_pause, timing.longest_pause);
    let mut receiver = GatewayReceiver {
        client,
        intake,
        health,
        stop: stop.clone(),
        cursor: DiscordCursor::default(),
        was_ready: false,
        avoids_resume_url: false,
    };
    loop {
        receiver.was_ready = false;
        let end = receiver.connect_once().await;
        if receiver.was_ready {
            backoff.reset();
        }
        let pause = match end {
            ConnectionEnd::Stopped => {
                health.record_stopped();
                return Ok(());
            }
            ConnectionEnd::Fatal(error) => {
                health.record_fatal(&error);
                return Err(error);
            }
            ConnectionEnd::ReconnectRequested => {
                tracing::info!(platform = %client.account, "Discord asked for a new connection");
                Duration::ZERO
            }
            ConnectionEnd::SessionOver { reason } => {
                tracing::info!(platform = %client.account, reason, "Discord session ended; starting a new one");
                // The next session does not bring what was said until it began: that is fetched after a loss.
                health.record_lost("session_over", reason);
                let jitter = u32::try_from(random_number() % 1000).unwrap_or_default();
                timing.invalid_session_pause * (1000 + jitter) / 1000
            }
            ConnectionEnd::Exhausted { wait } => {
                let message = "too many sessions were begun today; the next one is begun when Discord counts anew";
                tracing::error!(platform = %client.account, ?wait, "Discord session start limit of the day reached");
                health.record_lost("session_limit", message);
                wait
            }
            ConnectionEnd::Lost { code, reason } => {
                tracing::warn!(platform = %client.account, code, reason, "Discord connection lost");
                health.record_lost(code, reason);
                backoff.next_pause()
            }
        };
        tokio::select! {
            () = stop.cancelled() => {
                health.record_stopped();
                return Ok(());
            }
            () = tokio::time::sleep(pause) => {}
        }
    }
}

impl GatewayReceiver<'_> {
    async fn connect_once(&mut self) -> ConnectionEnd {
        let stop = self.stop.clone();
        let opened = tokio::select! {
            () = stop.cancelled() => return ConnectionEnd::Stopped,
            opened = self.open_shard() => opened,
        };
        match opened {
            Ok(mut opened) => {
                let mut end = self.follow(&mut opened.shard).await;
                if let ConnectionEnd::Lost { reason, .. } = &mut end
                    && let Some(failure) = opened.relay.as_ref().and_then(SocketRelay::take_failure)
                {
                    *reason = failure;
                }
                if let ConnectionEnd::Stopped = end {
                    self.say_goodbye(&mut opened.shard).await;
                }
                // An address for resuming that does not work must not keep the bot from its gateway.
                let is_unreachable = matches!(
                    end,
                    ConnectionEnd::Lost {
                        code: "unreachable" | "no_session",
                        ..
                    }
                );
                self.avoids_resume_url = is_unreachable && !self.avoids_resume_url;
                end
            }
            Err(end) => end,
        }
    }

    /// A shard at the stored position.
    async fn open_shard(&mut self) -> Result<OpenShard, ConnectionEnd> {
        self.cursor = DiscordCursor::from_value(self.intake.cursor().await?);
        let client = self.client;
        let asked = client.learn_identity(self.health).await;
        asked.map_err(|failure| ConnectionEnd::from_request(&failure, &client.account))?;
        // An address that is not usable would end the process.
        let is_usable =
            |session: &ResumableSession| client.check_socket_address(&session.resume_url).is_ok();
        self.cursor.session = self.cursor.session.take().filter(is_usable);
        let url = match &self.cursor.session {
            Some(session) if !self.avoids_resume_url => session.resume_url.clone(),
            _ => self.ask_address().await?,
        };
        let relay = if client.relays_socket(&url) {
            Some(self.start_relay(&url).await?)
        } else {
            None
        };
        let url = relay.as_ref().map_or(url, SocketRelay::address);
        check_certificates(&url).map_err(|reason| ConnectionEnd::Lost {
            code: "no_certificates",
            reason,
        })?;
        let intents = Intents::GUILDS
            | Intents::GUILD_MESSAGES
            | Intents::DIRECT_MESSAGES
            | Intents::MESSAGE_CONTENT;
        let mut config = ConfigBuilder::new(client.token.expose().clone(), intents)
            .proxy_url(url.clone())
            .queue(ImmediateQueue);
        if let Some(session) = &self.cursor.session {
            config = config
                .session(Session::new(session.sequence, session.id.clone()))
                .resume_url(url);
        }
        Ok(OpenShard {
            shard: Shard::with_config(ShardId::ONE, config.build()),
            relay,
        })
    }

    /// Asks for the address of the gateway. If a session has to be begun, it is counted.
    async fn ask_address(&mut self) -> Result<String, ConnectionEnd> {
        let answer = self.client.rest.get("/gateway/bot").await;
        let answer = answer
            .map_err(|failure| ConnectionEnd::from_request(&failure, &self.client.account))?;
        let url = answer["url"].as_str().unwrap_or_default();
        let url = url.trim_end_matches('/').to_owned();
        if let Err(reason) = self.client.check_socket_address(&url) {
            return Err(ConnectionEnd::Lost {
                code: "bad_address",
                reason: format!("Discord returned an unusable gateway address: {reason}"),
            });
        }
        if self.cursor.session.is_none() {
            self.count_identify(&answer["session_start_limit"]).await?;
        }
        Ok(url)
    }

    async fn start_relay(&self, url: &str) -> Result<SocketRelay, ConnectionEnd> {
        let http = self.client.rest.http_client().clone();
        let started = SocketRelay::start(http, url).await;
        started.map_err(|error| ConnectionEnd::Lost {
            code: "no_relay",
            reason: format!("no local port for the connection through the proxy: {error}"),
        })
    }

    /// Checks that another session may be begun, and counts it before it is.
    async fn count_identify(&mut self, limit: &Value) -> Result<(), ConnectionEnd> {
        let remaining = limit["remaining"].as_u64();
        let total = limit["total"].as_u64().unwrap_or(1000);
        let spare = SPARE_IDENTIFIES.min(total / 10);
        let reset_after = limit["reset_after"].as_u64().unwrap_or_default();
        if remaining.is_some_and(|remaining| remaining <= spare) {
            let wait = Duration::from_millis(reset_after).max(Duration::from_mins(1));
            return Err(ConnectionEnd::Exhausted { wait });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        let day = i64::try_from(now / SECONDS_PER_DAY).unwrap_or_default();
        if !self.cursor.count_identify(day) {
            let wait = Duration::from_secs(SECONDS_PER_DAY - now % SECONDS_PER_DAY);
            return Err(ConnectionEnd::Exhausted { wait });
        }
        self.store_cursor().await
    }

    async fn store_cursor(&self) -> Result<(), ConnectionEnd> {
        let cursor = self.cursor.to_value();
        Ok(self.intake.store(Vec::new(), Some(cursor)).await?)
    }

    /// Reads a connection until it ends.
    async fn follow(&mut self, shard: &mut Shard<ImmediateQueue>) -> ConnectionEnd {
        let deadline = Instant::now() + self.client.timing.session;
        // Set once Discord has said how the connection ends: what is left is to close it.
        let mut ending: Option<(ConnectionEnd, Instant)> = None;
        loop {
            let until = match &ending {
                Some((_, until)) => Some(*until),
                None if self.was_ready => None,
                None => Some(deadline),
            };
            let is_over = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let stop = self.stop.clone();
            let next = tokio::select! {
                () = stop.cancelled() => return ConnectionEnd::Stopped,
                () = is_over => {
                    return ending.map_or_else(
                        || ConnectionEnd::Lost {
                            code: "no_session",
                            reason: "Discord did not begin a session in time".into(),
                        },
                        |(end, _)| end,
                    );
                }
                next = shard.next() => next,
            };
            match next {
                Some(Ok(Message::Text(text))) if ending.is_none() => {
                    if let Some(end) = self.read_payload(&text).await {
                        if let ConnectionEnd::Lost { .. } = end {
                            return end;
                        }
                        ending = Some((end, Instant::now() + self.client.timing.closing));
                    }
                }
                Some(Ok(Message::Text(text))) => {
                    // Twilight has connected again by itself. The next connection is ours to make.
                    if is_hello(&text)
                        && let Some((end, _)) = ending
                    {
                        return end;
                    }
                }
                Some(Ok(Message::Close(frame))) => {
                    if let Some((end, _)) = ending {
                        return end;
                    }
                    let (code, reason) = frame.map_or((1005, String::new()), |frame| {
                        (frame.code, frame.reason.into_owned())
                    });
                    return match ConnectionEnd::from_close(code, &reason, &self.client.account) {
                        ConnectionEnd::SessionOver { reason } => self.forget_session(reason).await,
                        end => end,
                    };
                }
                Some(Err(error)) => {
                    if let ReceiveMessageErrorType::Deserializing { .. } = error.kind() {
                        // It is not one of the payloads that a connection lives on.
                        tracing::warn!(platform = %self.client.account, "payload of Discord cannot be read");
                        continue;
                    }
                    if let Some((end, _)) = ending {
                        return end;
                    }
                    let source = error.into_source();
                    return ConnectionEnd::Lost {
                        code: "unreachable",
                        reason: source.map_or_else(
                            || "the gateway cannot be reached".into(),
                            |source| root_cause(&*source),
                        ),
                    };
                }
                None => {
                    return ConnectionEnd::Lost {
                        code: "closed",
                        reason: "Discord closed the connection".into(),
                    };
                }
            }
        }
    }

    /// Reads a payload. Returns how the connection ends, if it does.
    async fn read_payload(&mut self, text: &str) -> Option<ConnectionEnd> {
        let mut payload = parse_wire_json(text.as_bytes()).ok()?;
        match payload["op"].as_u64()? {
            0 => {
                let sequence = payload["s"].as_u64()?;
                let name = payload["t"].as_str()?.to_owned();
                let data = payload["d"].take();
                self.read_event(&name, sequence, data).await.err()
            }
            7 => Some(ConnectionEnd::ReconnectRequested),
            9 if payload["d"] == true => Some(ConnectionEnd::ReconnectRequested),
            9 => {
                let reason = "the session is not valid any more".into();
                Some(self.forget_session(reason).await)
            }
            10 => {
                let millis = payload["d"]["heartbeat_interval"].as_u64()?;
                self.health.set_period(Duration::from_millis(millis));
                None
            }
            11 if self.was_ready => {
                self.health.record_ok();
                None
            }
            _ => None,
        }
    }

    async fn read_event(
        &mut self,
        name: &str,
        sequence: u64,
        data: Value,
    ) -> Result<(), ConnectionEnd> {
        match name {
            "READY" => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                self.client.learn_ready(&data);
                self.cursor.session = Some(ResumableSession {
                    id: text(&data["session_id"]),
                    resume_url: text(&data["resume_gateway_url"])
                        .trim_end_matches('/')
                        .to_owned(),
                    sequence,
                });
                self.store_cursor().await?;
                // A new session brings nothing of what was said before it.
                let was_lost = self.health.state() != ConnectionState::Connected;
                self.become_ready("Discord session began");
                if !was_lost {
                    self.health.record_gap();
                }
            }
            "RESUMED" => self.become_ready("Discord session resumed"),
            "MESSAGE_CREATE" | "INTERACTION_CREATE" => {
                let Some(update) = build_update(self.client, name, data).await else {
                    return Ok(());
                };
                // A session that is over has no position.
                if let Some(session) = &mut self.cursor.session {
                    session.sequence = sequence;
                }
                let cursor = self.cursor.to_value();
                self.intake.store(vec![update], Some(cursor)).await?;
            }
            _ => {
                let identity = self.client.identity();
                self.client.places.learn(name, &data, &identity.bot);
            }
        }
        Ok(())
    }

    fn become_ready(&mut self, event: &'static str) {
        self.was_ready = true;
        self.health.record_ok();
        tracing::info!(platform = %self.client.account, "{event}");
    }

    /// A session that cannot be resumed is forgotten before the next one begins.
    async fn forget_session(&mut self, reason: String) -> ConnectionEnd {
        self.cursor.session = None;
        match self.store_cursor().await {
            Ok(()) => ConnectionEnd::SessionOver { reason },
            Err(end) => end,
        }
    }

    /// Closes the connection so that its session can be resumed.
    async fn say_goodbye(&self, shard: &mut Shard<ImmediateQueue>) {
        shard.close(twilight_gateway::CloseFrame::RESUME);
        let closed = async {
            while let Some(Ok(message)) = shard.next().await {
                match message {
                    Message::Text(text) if !is_hello(&text) => {}
                    _ => break,
                }
            }
        };
        let limit = self.client.timing.closing;
        // Discord notices by itself where there is no answer.
        let _ = tokio::time::timeout(limit, closed).await;
    }
}

/// Whether a payload is the first of a connection.
fn is_hello(text: &str) -> bool {
    let payload = parse_wire_json(text.as_bytes()).ok();
    payload.is_some_and(|payload| payload["op"] == 10)
}
