//! Socket Mode: one socket, and a second one beside it while the first is being replaced.
//!
//! Slack tells beforehand when it closes a socket. The next one is opened at once, and both are read until the old one
//! is closed: an event comes over one of them. An envelope is acknowledged when it is stored; what is not acknowledged,
//! Slack sends again.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::{
    StreamExt as _,
    future::{BoxFuture, Either, select},
    stream::FuturesUnordered,
};
use hermes_config::{Secret, sync::Mutex};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    SlackCore,
    api::SlackFailure,
    identity::SlackIdentity,
    session::{GOODBYE_LIMIT, SlackSocketSession},
    socket::{self, SlackSocket},
};
use crate::platform::{
    AnnouncedEnd, ConnectionState, FatalError, PlatformHealth, UpdateIntake,
    backoff::ReconnectBackoff,
};

/// Two sockets have two notices each in the air at most.
const NOTICE_CAPACITY: usize = 8;

/// Sockets that were open together for so long surely were so for Slack, too.
const SURE_OVERLAP: Duration = Duration::from_secs(1);

/// What all sockets of an account share.
pub(super) struct SlackReception<'a> {
    pub(super) core: &'a SlackCore,
    app_token: &'a Secret<String>,
    pub(super) intake: &'a dyn UpdateIntake,
    pub(super) health: &'a PlatformHealth,
    pub(super) stop: CancellationToken,
    notices: mpsc::Sender<SlackSocketNotice>,
    /// Sockets that have said hello.
    pub(super) open: AtomicUsize,
    /// When the last of them did.
    pub(super) last_ready: Mutex<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlackSocketNotice {
    Ready,
    /// Slack will close this socket.
    Leaving(u64),
}

struct SlackSocketEnd<'a> {
    id: u64,
    reason: SlackSocketEndReason,
    /// The earliest time at which it may have ended, if it was open.
    ended_at: Option<Instant>,
    /// If Slack had said so.
    announced: Option<AnnouncedEnd<'a>>,
}

impl SlackSocketEnd<'_> {
    /// The end of a socket that was never open.
    fn unopened(id: u64, reason: SlackSocketEndReason) -> Self {
        Self {
            id,
            reason,
            ended_at: None,
            announced: None,
        }
    }
}

pub(super) enum SlackSocketEndReason {
    /// Slack closed it after having said so, or the gateway stops.
    Closed,
    Lost {
        code: &'static str,
        message: String,
    },
    /// Nothing is to be opened before that.
    Wait(Duration),
    Fatal(FatalError),
}

impl SlackCore {
    pub(super) async fn receive_updates(
        &self,
        intake: &dyn UpdateIntake,
        health: &PlatformHealth,
        stop: CancellationToken,
    ) -> Result<(), FatalError> {
        let Some(app_token) = &self.app_token else {
            let error = FatalError {
                code: "missing_app_token",
                message: format!(
                    "{} (xapp-…) is not set: messages can be sent, none are received",
                    self.account.variable("APP_TOKEN")
                ),
            };
            health.record_fatal(&error);
            return Err(error);
        };
        health.set_period(self.timeouts.ping_interval);
        let (notices, received) = mpsc::channel(NOTICE_CAPACITY);
        let reception = SlackReception {
            core: self,
            app_token,
            intake,
            health,
            stop,
            notices,
            open: AtomicUsize::new(0),
            last_ready: Mutex::new(Instant::now()),
        };
        let sockets = std::pin::pin!(reception.keep_connected(received));
        let statuses = std::pin::pin!(self.expire_statuses());
        match select(sockets, statuses).await {
            Either::Left((ended, _)) => ended,
            Either::Right(_) => Ok(()),
        }
    }
}

impl<'a> SlackReception<'a> {
    async fn keep_connected(
        &self,
        mut notices: mpsc::Receiver<SlackSocketNotice>,
    ) -> Result<(), FatalError> {
        let timeouts = self.core.timeouts;
        let mut backoff = ReconnectBackoff::new(timeouts.first_pause, timeouts.longest_pause);
        let mut sockets: FuturesUnordered<BoxFuture<'_, SlackSocketEnd<'a>>> =
            FuturesUnordered::new();
        // The socket that is meant to stay. The others are on their way out.
        let mut current: Option<u64> = None;
        let mut last_id = 0;
        let mut opened_at = Instant::now();
        let mut open_at = opened_at;
        loop {
            if current.is_none() && Instant::now() >= open_at {
                last_id += 1;
                current = Some(last_id);
                opened_at = Instant::now();
                sockets.push(Box::pin(self.run_socket(last_id)));
            }
            tokio::select! {
                () = self.stop.cancelled() => break,
                Some(notice) = notices.recv() => match notice {
                    SlackSocketNotice::Ready => backoff.reset(),
                    SlackSocketNotice::Leaving(id) if current == Some(id) => {
                        current = None;
                        // At once, unless Slack replaces one socket after the other.
                        open_at = opened_at + timeouts.first_pause;
                    }
                    SlackSocketNotice::Leaving(_) => {}
                },
                Some(end) = sockets.next(), if !sockets.is_empty() => {
                    let is_current = current == Some(end.id);
                    if is_current {
                        current = None;
                    }
                    match end.reason {
                        SlackSocketEndReason::Fatal(error) => {
                            self.health.record_fatal(&error);
                            return Err(error);
                        }
                        SlackSocketEndReason::Wait(wait) if is_current => {
                            open_at = Instant::now() + wait;
                            if self.open.load(Ordering::Relaxed) == 0 {
                                self.health.record_lost("rate_limited", "Slack limits how often sockets are opened");
                            }
                        }
                        SlackSocketEndReason::Lost { code, message } if is_current => {
                            let pause = backoff.next_pause();
                            open_at = Instant::now() + pause;
                            tracing::warn!(
                                account = %self.core.account, code, %message,
                                retry_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
                                "Slack socket lost, reconnecting"
                            );
                            if self.open.load(Ordering::Relaxed) == 0 {
                                self.health.record_lost(code, message);
                            }
                        }
                        SlackSocketEndReason::Closed if is_current => {
                            open_at = opened_at + timeouts.first_pause;
                        }
                        _ => {}
                    }
                    self.note_gap(end.ended_at);
                    // Only now: whether something was missed is known.
                    drop(end.announced);
                }
                () = sleep_until(open_at), if current.is_none() => {}
            }
        }
        // Each says goodbye and finishes what it is storing.
        let goodbye = async { while sockets.next().await.is_some() {} };
        if timeout(GOODBYE_LIMIT * 2, goodbye).await.is_err() {
            tracing::debug!("Slack sockets were closed without a closing handshake");
        }
        Ok(())
    }

    /// While no socket is open Slack delivers nothing: what is said then is fetched once the next one is. One that may
    /// have been closed before the next one was open may have left a gap, too.
    fn note_gap(&self, ended_at: Option<Instant>) {
        let is_open = self.open.load(Ordering::Relaxed) > 0;
        let Some(ended_at) = ended_at else { return };
        if is_open {
            if ended_at < *self.last_ready.lock() + SURE_OVERLAP {
                self.health.record_gap();
            }
        } else if self.health.state() == ConnectionState::Connected {
            let message = "Slack closed its socket before the next one was open";
            self.health.record_lost("disconnected", message);
        }
    }

    async fn run_socket(&self, id: u64) -> SlackSocketEnd<'a> {
        let core = self.core;
        let opening = async {
            let checked = core.check_token().await;
            let identity = checked.map_err(|failure| {
                let fatal = core.fatal_of_bot_token(&failure);
                fatal.map_or_else(|| lost_or_wait(&failure), SlackSocketEndReason::Fatal)
            })?;
            core.report_scopes(&identity, self.health);
            let opened = core.open_address(self.app_token).await;
            let address = opened.map_err(|failure| {
                let fatal = core.fatal_of_app_token(&failure);
                fatal.map_or_else(|| lost_or_wait(&failure), SlackSocketEndReason::Fatal)
            })?;
            let socket = socket::connect(&core.api, &address).await;
            let socket = socket.map_err(|message| SlackSocketEndReason::Lost {
                code: "connect_failed",
                message,
            })?;
            Ok((socket, identity))
        };
        let limited = async {
            match timeout(core.timeouts.connect, opening).await {
                Ok(opened) => opened,
                Err(_) => Err(SlackSocketEndReason::Lost {
                    code: "connect_failed",
                    message: "connecting to Slack timed out".into(),
                }),
            }
        };
        tokio::select! {
            () = self.stop.cancelled() => SlackSocketEnd::unopened(id, SlackSocketEndReason::Closed),
            opened = limited => match opened {
                Ok((socket, identity)) => self.serve_socket(id, socket, &identity).await,
                Err(reason) => SlackSocketEnd::unopened(id, reason),
            },
        }
    }

    async fn serve_socket(
        &self,
        id: u64,
        socket: SlackSocket,
        identity: &SlackIdentity,
    ) -> SlackSocketEnd<'a> {
        let mut session = SlackSocketSession::new(self, id, socket, identity);
        let reason = session.run().await;
        let ended_at = session.is_ready().then(|| session.may_have_ended_at());
        if ended_at.is_some() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        SlackSocketEnd {
            id,
            reason,
            ended_at,
            announced: session.take_announced_end(),
        }
    }

    pub(super) async fn notify(&self, notice: SlackSocketNotice) {
        // The other side only ends when this socket is dropped.
        let _ = self.notices.send(notice).await;
    }

    /// Slack tells when the app was removed, or its tokens were.
    pub(super) async fn check_revocation(&self, envelope: &Value) -> Option<SlackSocketEndReason> {
        let kind = envelope["payload"]["event"]["type"].as_str()?;
        if !matches!(kind, "tokens_revoked" | "app_uninstalled") {
            return None;
        }
        let core = self.core;
        let failure = core.check_token().await.err()?;
        core.fatal_of_bot_token(&failure)
            .map(SlackSocketEndReason::Fatal)
    }
}

fn lost_or_wait(failure: &SlackFailure) -> SlackSocketEndReason {
    match failure {
        SlackFailure::RateLimited { wait } => SlackSocketEndReason::Wait(*wait),
        other => SlackSocketEndReason::Lost {
            code: "connect_failed",
            message: other.to_string(),
        },
    }
}
