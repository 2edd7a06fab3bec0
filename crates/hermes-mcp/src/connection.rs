//! The task that owns one server's connection: it connects, keeps the session, notices its end, retries, parks and recycles.
//!
//! Retry count, catalog and child process are local to the task. Others see its [`Link`] and send it commands;
//! calls go to the session's peer directly and never through this mailbox.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwapOption;
use hermes_config::{
    Fingerprint, Home, ReferencePolicy, ResolvedServer, Server, ServerName, TransportSettings,
    Variables, random::add_jitter, server::Auth,
};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use self::{
    breaker::{CircuitBreaker, Clock},
    counters::Counters,
    handle::ResourceSubscriptions,
    link::{Link, LinkError, LinkStatus, LoginAdvice, hosted_tenant},
};
use crate::{
    oauth::{Authorizer, Challenge, TokenFiles},
    process::Processes,
    server_request::ServerRequestHandler,
    tools::{catalog::Catalog, pins::PinQueue},
};

mod attempt_processes;
pub mod breaker;
mod connect;
pub mod counters;
pub mod era;
pub(crate) mod failure;
pub(crate) mod handle;
mod handshake;
mod keepalive;
pub mod link;
pub mod manifest;
mod pinning;
pub mod session;
mod session_loop;
mod stdio_probe;
mod subscriptions;

pub(crate) use connect::resolve_references;
pub(crate) use failure::ConnectError;
pub(crate) use keepalive::CHECK_TIMEOUT;

/// Whether the tools that a server had when it was last connected are offered while it connects; a call waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RememberedTools {
    /// They are.
    Offered,
    /// Only a lazy server's are.
    #[default]
    Hidden,
}

/// What a connection is told from outside.
#[derive(Debug)]
pub(crate) enum ConnectionCommand {
    /// Try now: a call starts the server, or the user asked for it.
    Wake,
    /// Try now, before the time that was planned: a call waits for the server to come back.
    WakeForCall,
    /// Ask a server that is ready whether it is there, and try now if it is not ready. Whoever asked knows that this is
    /// done when the sender is dropped.
    Check(oneshot::Sender<()>),
    /// A call was refused for want of a login.
    AuthLost { challenge: Option<String> },
    /// Stop for good, then answer.
    Stop(oneshot::Sender<()>),
}

/// What all connections of one host share.
pub(crate) struct HostContext {
    pub(crate) home: Home,
    pub(crate) variables: arc_swap::ArcSwap<Variables>,
    pub(crate) reference_policy: ReferencePolicy,
    pub(crate) request_handler: Arc<dyn ServerRequestHandler>,
    pub(crate) processes: Processes,
    pub(crate) pins: Arc<PinQueue>,
    /// Tells the host that what it publishes may have changed.
    pub(crate) changed: Arc<dyn Fn() + Send + Sync>,
    pub(crate) remembered_tools: RememberedTools,
    pub(crate) fetch_limit: Option<Duration>,
    pub(crate) clock: Clock,
    pub(crate) stop: CancellationToken,
}

/// The server's settings that calls and filters read; replaced as a whole by a reload.
pub(crate) type SharedServer = arc_swap::ArcSwap<Server>;

pub(crate) struct Connection {
    pub(crate) shared: ConnectionContext,
    pub(crate) mailbox: mpsc::Receiver<ConnectionCommand>,
    /// The references, filled in just now: for the first attempt, unless that has to wait.
    pub(crate) resolved: Option<ResolvedServer>,
}

/// What the parts of one connection task share: who it is, and where it publishes.
pub(crate) struct ConnectionContext {
    pub(crate) name: ServerName,
    pub(crate) server: Arc<SharedServer>,
    /// `None` while its references cannot be resolved.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) host_context: Arc<HostContext>,
    pub(crate) link: watch::Sender<Link>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) breaker: Arc<CircuitBreaker>,
    pub(crate) redactor: Arc<arc_swap::ArcSwap<hermes_config::Redactor>>,
    pub(crate) resource_updates: broadcast::Sender<String>,
    /// Resources whose changes somebody wants to hear of.
    pub(crate) resource_subscriptions: Arc<watch::Sender<ResourceSubscriptions>>,
    /// Where the login of the server is kept.
    pub(crate) token_files: TokenFiles,
    /// What authorizes the requests of the last attempt, where the server needs a login.
    pub(crate) authorizer: Arc<ArcSwapOption<Authorizer>>,
    /// Whether the last attempt ran out of time because its process ended at `server/discover`: then the next one begins
    /// with `initialize`, and the server has all of its time.
    pub(crate) discover_cost_attempt: Arc<AtomicBool>,
}

enum SessionEnd {
    /// On purpose, for good.
    Stopped(Option<oneshot::Sender<()>>),
    /// Over its idle time or age.
    Recycled,
    /// Lost; the reason is redacted.
    Lost(String),
    /// A login is needed.
    AuthLost(Option<String>),
}

/// How a session ended, as far as closing it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndKind {
    Lost,
    Intentional,
}

/// What a waiting connection was woken by.
enum WakeReason {
    Due,
    Requested,
    /// By a call, so long before the planned time.
    Early(Duration),
    Stop(Option<oneshot::Sender<()>>),
}

/// A session this old counts as stable: the retry count starts over.
const STABLE_AFTER: Duration = Duration::from_mins(1);
/// How often a parked server is tried.
const PROBE_INTERVAL: Duration = Duration::from_mins(5);

impl Connection {
    /// Runs until it is stopped.
    pub(crate) async fn run(mut self) {
        let reply = self.run_until_stopped().await;
        if let Some(authorizer) = self.shared.authorizer.load_full() {
            authorizer.wait_for_renewals().await;
        }
        self.shared.publish(|link| {
            link.status = LinkStatus::Stopped;
            link.session = None;
            link.next_attempt_at = None;
        });
        if let Some(reply) = reply {
            let _ = reply.send(());
        }
    }

    async fn run_until_stopped(&mut self) -> Option<oneshot::Sender<()>> {
        let is_lazy = self.shared.server.load().lazy;
        let offers_remembered =
            self.shared.host_context.remembered_tools == RememberedTools::Offered;
        let manifest = self
            .shared
            .manifest_path()
            .filter(|_| is_lazy || offers_remembered);
        if let Some(manifest) = manifest.as_deref().and_then(manifest::read_manifest) {
            let mut catalog = manifest.to_catalog();
            self.shared.withhold_changed_tools(&mut catalog);
            let status = if is_lazy {
                LinkStatus::Lazy
            } else {
                LinkStatus::Connecting
            };
            self.shared.publish_catalog(Arc::new(catalog), status);
        }
        if self.shared.link.borrow().status == LinkStatus::Lazy {
            self.resolved = None;
            if let WakeReason::Stop(reply) = self.wait_for_retry(None).await {
                return reply;
            }
        }
        let mut attempt = 0;
        // When an attempt was planned that a call has asked for before its time.
        let mut planned: Option<Instant> = None;
        loop {
            let outcome = self.connect_or_stop().await;
            let planned_pause = planned
                .take()
                .map(|at| at.saturating_duration_since(Instant::now()));
            let wait = match outcome {
                Err(reply) => return reply,
                Ok(Ok(live)) => {
                    let began = Instant::now();
                    let (end, remains) = self.serve_session(live).await;
                    let how = if matches!(end, SessionEnd::Lost(_)) {
                        EndKind::Lost
                    } else {
                        EndKind::Intentional
                    };
                    if began.elapsed() >= STABLE_AFTER {
                        attempt = 0;
                    }
                    let wait = match end {
                        SessionEnd::Stopped(reply) => {
                            remains.close(how).await;
                            return reply;
                        }
                        SessionEnd::Recycled => {
                            attempt = 0;
                            self.shared.publish_status(LinkStatus::Lazy, None);
                            None
                        }
                        SessionEnd::AuthLost(challenge) => {
                            self.shared.publish_needs_auth(challenge.as_deref());
                            None
                        }
                        SessionEnd::Lost(reason) => {
                            Some(self.shared.schedule_retry(&mut attempt, reason))
                        }
                    };
                    // The link is published by now, so this may take its time. Never two processes for one server.
                    let ended = Instant::now();
                    remains.close(how).await;
                    wait.map(|pause| pause.saturating_sub(ended.elapsed()))
                }
                Ok(Err(ConnectError::Auth { challenge })) => {
                    self.shared.publish_needs_auth(challenge.as_deref());
                    None
                }
                Ok(Err(ConnectError::Invalid(reason))) => {
                    self.shared
                        .publish_status(LinkStatus::Invalid, Some(reason));
                    None
                }
                Ok(Err(error)) => Some(match planned_pause {
                    // Calls may come in any number: their attempts do not use up those that are planned.
                    Some(pause) => self.shared.keep_scheduled_retry(pause, error.to_string()),
                    None => self.shared.schedule_retry(&mut attempt, error.to_string()),
                }),
            };
            match self.wait_for_retry(wait).await {
                WakeReason::Stop(reply) => return reply,
                WakeReason::Early(before) => planned = Some(Instant::now() + before),
                WakeReason::Requested | WakeReason::Due => {}
            }
        }
    }

    /// Connects, unless told to stop meanwhile.
    async fn connect_or_stop(
        &mut self,
    ) -> Result<Result<connect::OpenedSession, ConnectError>, Option<oneshot::Sender<()>>> {
        if self.shared.link.borrow().status != LinkStatus::Parked {
            let status = match self.shared.link.borrow().status {
                LinkStatus::Connecting => LinkStatus::Connecting,
                _ if self.shared.link.borrow().attempts_ended == 0 => LinkStatus::Connecting,
                _ => LinkStatus::Reconnecting,
            };
            self.shared.publish(|link| {
                link.status = status;
                link.next_attempt_at = None;
            });
        }
        let connector = self.shared.connector(self.resolved.take());
        let given_up = self.shared.host_context.stop.child_token();
        let mut asked_to_stop = None;
        // On the heap, so that a connected server does not carry the size of an attempt.
        let mut connect = Box::pin(connector.connect(given_up.clone()));
        loop {
            tokio::select! {
                outcome = &mut connect => return match outcome {
                    Err(ConnectError::Cancelled) => Err(asked_to_stop),
                    other => Ok(other),
                },
                command = self.mailbox.recv(), if !given_up.is_cancelled() => match command {
                    Some(ConnectionCommand::Stop(reply)) => {
                        asked_to_stop = Some(reply);
                        given_up.cancel();
                    }
                    None => given_up.cancel(),
                    Some(_) => {}
                },
            }
        }
    }

    /// Sleeps until the time is up or somebody wants the server.
    async fn wait_for_retry(&mut self, limit: Option<Duration>) -> WakeReason {
        let sleep = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let began = Instant::now();
        let mut sleep = std::pin::pin!(sleep);
        let mut logged_in = std::pin::pin!(self.shared.wait_for_login());
        loop {
            tokio::select! {
                () = &mut sleep => return WakeReason::Due,
                () = &mut logged_in => return WakeReason::Requested,
                () = self.shared.host_context.stop.cancelled() => return WakeReason::Stop(None),
                command = self.mailbox.recv() => match command {
                    Some(ConnectionCommand::Wake | ConnectionCommand::Check(_)) => return WakeReason::Requested,
                    Some(ConnectionCommand::WakeForCall) => return match limit {
                        Some(limit) => WakeReason::Early(limit.saturating_sub(began.elapsed())),
                        None => WakeReason::Requested,
                    },
                    Some(ConnectionCommand::Stop(reply)) => return WakeReason::Stop(Some(reply)),
                    None => return WakeReason::Stop(None),
                    Some(ConnectionCommand::AuthLost { .. }) => {}
                },
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A task that panicked must not leave a link behind that looks alive.
        if std::thread::panicking() {
            let reason = "an internal error ended the connection; a reload starts it again";
            self.shared
                .publish_status(LinkStatus::Stopped, Some(reason.into()));
        }
    }
}

impl ConnectionContext {
    /// Publishes a failure and says how long to wait before the next attempt.
    fn schedule_retry(&self, attempt: &mut u32, reason: String) -> Duration {
        *attempt += 1;
        let (status, delay) = match reconnect_delay(*attempt) {
            Some(delay) => (LinkStatus::Reconnecting, delay),
            None => (LinkStatus::Parked, PROBE_INTERVAL),
        };
        let failed = *attempt;
        self.publish_status(status, Some(reason));
        self.publish(|link| {
            link.attempt = failed;
            link.next_attempt_at = Some(SystemTime::now() + delay);
        });
        delay
    }

    /// Publishes the failure of an attempt that was not planned; the planned one still follows.
    fn keep_scheduled_retry(&self, pause: Duration, reason: String) -> Duration {
        let status = match self.link.borrow().status {
            LinkStatus::Parked => LinkStatus::Parked,
            _ => LinkStatus::Reconnecting,
        };
        self.publish_status(status, Some(reason));
        self.publish(|link| link.next_attempt_at = Some(SystemTime::now() + pause));
        pause
    }

    fn publish_status(&self, status: LinkStatus, error: Option<String>) {
        let error = error.map(|text| LinkError {
            text,
            advice: None,
            at: SystemTime::now(),
        });
        self.publish_status_with(status, error);
    }

    fn publish_needs_auth(&self, challenge: Option<&str>) {
        self.publish_status_with(LinkStatus::NeedsAuth, Some(self.login_error(challenge)));
    }

    fn publish_status_with(&self, status: LinkStatus, error: Option<LinkError>) {
        self.publish(|link| {
            link.status = status;
            link.session = None;
            link.next_attempt_at = None;
            link.attempts_ended += 1;
            if error.is_some() {
                link.error = error;
            }
        });
    }

    fn publish_catalog(&self, catalog: Arc<Catalog>, status: LinkStatus) {
        self.publish(|link| {
            link.catalog = Some(catalog);
            link.status = status;
        });
    }

    /// Changes the link, logs a change of state once, and tells the host.
    fn publish(&self, change: impl FnOnce(&mut Link)) {
        self.link.send_modify(|link| {
            let before = link.status;
            change(link);
            if link.status != before {
                link.since = SystemTime::now();
                let reason = link.error.as_ref().map(ToString::to_string);
                let reason = reason.as_deref().unwrap_or_default();
                match link.status {
                    LinkStatus::Reconnecting | LinkStatus::Parked | LinkStatus::NeedsAuth | LinkStatus::Invalid => {
                        tracing::warn!(server = %self.name, from = %before, to = %link.status, reason, "server status changed");
                    }
                    _ => tracing::info!(server = %self.name, from = %before, to = %link.status, "server status changed"),
                }
            }
            // Before anybody can see the new link: a status is never newer than the registry beside it.
            (self.host_context.changed)();
        });
    }

    /// Resolves when somebody has logged in, perhaps in another process; never while that is not waited for.
    fn wait_for_login(&self) -> impl Future<Output = ()> + use<> {
        let is_waited_for = self.link.borrow().status == LinkStatus::NeedsAuth;
        let authorizer = self.authorizer.load_full().filter(|_| is_waited_for);
        async move {
            match authorizer {
                Some(authorizer) => authorizer.wait_for_token_change().await,
                None => std::future::pending().await,
            }
        }
    }

    fn manifest_path(&self) -> Option<std::path::PathBuf> {
        let fingerprint = self.fingerprint.as_ref()?;
        Some(manifest::manifest_path(
            &self.host_context.home,
            fingerprint,
        ))
    }

    /// Why the server cannot be used without a login, and what to do.
    fn login_error(&self, challenge: Option<&str>) -> LinkError {
        let name = self.name.clone();
        let server = self.server.load();
        let (text, advice) = match server.auth {
            // What is said then is in our words already.
            Some(Auth::OAuth) => {
                let reason = challenge.unwrap_or("the server needs a login");
                (reason.to_owned(), LoginAdvice::LogIn(name))
            }
            None => {
                let reason = challenge.and_then(Challenge::reason);
                let detail = reason.map(|text| format!(" ({text})")).unwrap_or_default();
                if sends_authorization(&server.transport) {
                    let what = "the server does not accept the `Authorization` of its `headers`";
                    let advice = LoginAdvice::CorrectHeadersOrLogIn(name);
                    (format!("{what}{detail}"), advice)
                } else {
                    let advice = LoginAdvice::LogInOrSetHeaders(name);
                    (format!("the server needs a login{detail}"), advice)
                }
            }
        };
        let variables = self.host_context.variables.load();
        LinkError {
            text: self.redactor.load().redact(&text).into_owned(),
            advice: Some(advice.for_tenant(hosted_tenant(&variables))),
            at: SystemTime::now(),
        }
    }
}

/// Whether the user gave a token by hand.
fn sends_authorization(transport: &TransportSettings) -> bool {
    match transport {
        TransportSettings::Http(http) | TransportSettings::Sse(http) => http
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("authorization")),
        TransportSettings::Stdio(_) => false,
    }
}

/// Seconds before each attempt to reach a lost server; after the last one the server is parked.
const RECONNECT_DELAYS: [u64; 5] = [1, 2, 4, 8, 16];

/// The pause before the given attempt (counted from 1), or `None` when they are used up.
fn reconnect_delay(attempt: u32) -> Option<Duration> {
    let index = usize::try_from(attempt.checked_sub(1)?).ok()?;
    RECONNECT_DELAYS
        .get(index)
        .map(|seconds| add_jitter(Duration::from_secs(*seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_attempts_and_then_none() {
        for (attempt, seconds) in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 16.0)] {
            let delay = reconnect_delay(attempt).unwrap().as_secs_f64();
            assert!(
                (seconds * 0.8..=seconds * 1.2).contains(&delay),
                "{attempt}: {delay}"
            );
        }
        assert_eq!(reconnect_delay(6), None);
    }
}
