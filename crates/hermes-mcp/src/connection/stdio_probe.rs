//! Finds out which era a local server speaks, without ever ending one for being slow.
//!
//! A process is asked `server/discover`. When it has not answered after a while, `initialize` follows down the same
//! pipe and both answers are awaited: a server that was only slow to start finds both and answers them. One that stays
//! silent for half of its time may have been put off by the first question, so a second process is started beside it
//! and is asked `initialize` alone. Whoever answers first stays.

use std::{collections::VecDeque, pin::pin, time::Duration};

use rmcp::{
    RoleClient,
    model::{
        ClientConfig, ClientJsonRpcMessage, ClientRequest, ClientResult, DiscoverRequest,
        DiscoverRequestParams, ErrorCode, ErrorData, InitializeRequest, JsonRpcMessage,
        ProtocolVersion, RequestId, RequestMetaObject, ServerJsonRpcMessage, ServerRequest,
        ServerResult,
    },
    transport::Transport,
};
use tokio::time::{Instant, sleep_until};

use super::handshake::OpenError;
use crate::{connection::era::HandshakeMode, transport::replay::ReplayTransport};

/// The id that rmcp begins with: it uses it for the request that repeats ours.
const INITIALIZE_ID: i64 = 0;
/// Ids that no session ever reaches.
const DISCOVER_ID: i64 = i32::MAX as i64;
const DISCOVER_RETRY_ID: i64 = DISCOVER_ID - 1;

/// How long an answer to `initialize` is awaited when the one to `server/discover` has come.
const INITIALIZE_GRACE: Duration = Duration::from_secs(1);
/// Messages of a server before its first answer that are kept: logging, mostly.
const MAX_EARLY_MESSAGES: usize = 64;

/// When a silent server is asked in another way, from its start on.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeSchedule {
    /// `initialize` goes down the same pipe.
    pub(super) initialize: Option<Duration>,
    /// A second process is asked `initialize` alone.
    pub(super) second: Option<Duration>,
}

/// Which of the processes answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Winner {
    First,
    Second,
}

/// A server that has answered.
pub(super) struct Probed<T> {
    /// Has the answer for the session that is begun on it.
    pub(super) transport: ReplayTransport<T>,
    /// How that session is to be begun.
    pub(super) opening: HandshakeMode,
    pub(super) winner: Winner,
}

/// Asks a server that was just started which era it speaks.
///
/// `start_second` starts another process of it; `None` if that is not possible. `first_ended` is called when the first one
/// ends instead of answering.
pub(super) async fn probe<T: Transport<RoleClient>>(
    first: T,
    config: &ClientConfig,
    times: ProbeSchedule,
    start_second: impl AsyncFnOnce() -> Option<T>,
    first_ended: impl Fn(),
) -> Result<Probed<T>, OpenError> {
    let began = Instant::now();
    let at = |after: Option<Duration>| after.map(|after| began + after);
    let (mut initialize_at, mut second_at) = (at(times.initialize), at(times.second));
    let mut start_second = Some(start_second);
    let mut stateless_at = None;
    let mut second: Option<ProbeCandidate<T>> = None;
    let mut failed = None;
    let mut first = Some(ProbeCandidate::new(first));
    if let Some(first) = &mut first {
        first.send_discover(config, DISCOVER_ID).await;
    }
    loop {
        tokio::select! {
            () = receive_message(&mut first) => {}
            () = receive_message(&mut second) => {}
            () = sleep_until_some(initialize_at) => {
                initialize_at = None;
                if let Some(first) = first.as_mut().filter(|first| first.is_silent()) {
                    first.send_initialize(config).await;
                }
            }
            () = sleep_until_some(second_at) => {
                second_at = None;
                let is_silent = first.as_ref().is_some_and(ProbeCandidate::is_silent);
                if let Some(start) = start_second.take().filter(|_| is_silent) {
                    second = start().await.map(ProbeCandidate::new);
                    if let Some(second) = &mut second {
                        second.send_initialize(config).await;
                    }
                }
            }
            () = sleep_until_some(stateless_at) => {
                stateless_at = None;
                if let Some(first) = first.take() {
                    return Ok(first.into_probed(HandshakeMode::Discover, Winner::First));
                }
            }
        }
        for (candidate, winner) in [(&mut first, Winner::First), (&mut second, Winner::Second)] {
            let Some(probe) = candidate else { continue };
            match probe.decide() {
                ProbeDecision::Undecided => {}
                ProbeDecision::Stateless => {
                    stateless_at = stateless_at.or(Some(Instant::now() + INITIALIZE_GRACE));
                }
                ProbeDecision::RetryDiscover => {
                    probe.send_discover(config, DISCOVER_RETRY_ID).await;
                }
                ProbeDecision::TryInitialize => probe.send_initialize(config).await,
                ProbeDecision::Session(opening) => {
                    if let Some(candidate) = candidate.take() {
                        return Ok(candidate.into_probed(opening, winner));
                    }
                }
                ProbeDecision::Failed(error) => {
                    if winner == Winner::First && matches!(error, OpenError::Closed) {
                        first_ended();
                    }
                    failed = Some(error);
                    *candidate = None;
                }
            }
        }
        if first.is_none() && second.is_none() {
            return Err(failed.unwrap_or(OpenError::Closed));
        }
    }
}

/// Handles the next message of a candidate, if there is one. Cancel-safe.
async fn receive_message<T: Transport<RoleClient>>(candidate: &mut Option<ProbeCandidate<T>>) {
    match candidate {
        Some(candidate) if !candidate.is_closed => {
            let message = pin!(candidate.transport.receive()).await;
            candidate.handle_message(message).await;
        }
        _ => std::future::pending().await,
    }
}

async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What became of one request.
#[derive(Debug)]
enum ProbeReply {
    NotAsked,
    Awaited,
    Given(Box<ServerResult>),
    Refused(ErrorData),
}

/// What the answers of a candidate mean.
enum ProbeDecision {
    /// More is to come.
    Undecided,
    /// It speaks the stateless era, unless it answers `initialize` as well.
    Stateless,
    RetryDiscover,
    TryInitialize,
    Session(HandshakeMode),
    Failed(OpenError),
}

/// One process that is asked.
struct ProbeCandidate<T> {
    transport: T,
    discover: ProbeReply,
    initialize: ProbeReply,
    was_asked_again: bool,
    earlier: VecDeque<ServerJsonRpcMessage>,
    is_closed: bool,
}

impl<T: Transport<RoleClient>> ProbeCandidate<T> {
    fn new(transport: T) -> Self {
        Self {
            transport,
            discover: ProbeReply::NotAsked,
            initialize: ProbeReply::NotAsked,
            was_asked_again: false,
            earlier: VecDeque::new(),
            is_closed: false,
        }
    }

    async fn send_discover(&mut self, config: &ClientConfig, id: i64) {
        let mut request = DiscoverRequest::new(DiscoverRequestParams {});
        request
            .extensions
            .insert(RequestMetaObject::with_client_context(
                ProtocolVersion::V_2026_07_28,
                config.client_info.clone(),
                config.capabilities.clone(),
            ));
        self.discover = ProbeReply::Awaited;
        self.was_asked_again = id == DISCOVER_RETRY_ID;
        self.send_request(ClientRequest::DiscoverRequest(request), id)
            .await;
    }

    async fn send_initialize(&mut self, config: &ClientConfig) {
        let request = InitializeRequest::new(config.clone());
        self.initialize = ProbeReply::Awaited;
        self.send_request(ClientRequest::InitializeRequest(request), INITIALIZE_ID)
            .await;
    }

    async fn send_request(&mut self, request: ClientRequest, id: i64) {
        let request = ClientJsonRpcMessage::request(request, RequestId::Number(id));
        self.send(request).await;
    }

    /// A server that cannot be written to any more is one that has closed its end, which the next read shows.
    async fn send(&mut self, message: ClientJsonRpcMessage) {
        if let Err(error) = self.transport.send(message).await {
            tracing::debug!(%error, "failed to send a probe request");
        }
    }

    async fn handle_message(&mut self, message: Option<ServerJsonRpcMessage>) {
        match message {
            None => self.is_closed = true,
            Some(JsonRpcMessage::Response(response)) => {
                if let Some(reply) = self.reply_to(Some(&response.id)) {
                    *reply = ProbeReply::Given(Box::new(response.result));
                }
            }
            Some(JsonRpcMessage::Error(error)) => {
                if let Some(reply) = self.reply_to(error.id.as_ref()) {
                    *reply = ProbeReply::Refused(error.error);
                }
            }
            Some(JsonRpcMessage::Request(request)) => {
                if matches!(request.request, ServerRequest::PingRequest(_)) {
                    let pong = ClientResult::empty(());
                    self.send(ClientJsonRpcMessage::response(pong, request.id))
                        .await;
                }
            }
            Some(notification @ JsonRpcMessage::Notification(_)) => {
                if self.earlier.len() < MAX_EARLY_MESSAGES {
                    self.earlier.push_back(notification);
                }
            }
            #[expect(unreachable_patterns, reason = "kinds of messages may be added")]
            Some(_) => {}
        }
    }

    /// The request that an answer belongs to. An error without a number answers what was asked first.
    fn reply_to(&mut self, id: Option<&RequestId>) -> Option<&mut ProbeReply> {
        let awaited = match id.map(ToString::to_string) {
            Some(id) if id == INITIALIZE_ID.to_string() => &mut self.initialize,
            Some(id) if id == DISCOVER_ID.to_string() && self.was_asked_again => return None,
            Some(_) => &mut self.discover,
            None if matches!(self.discover, ProbeReply::Awaited) => &mut self.discover,
            None => &mut self.initialize,
        };
        Some(awaited).filter(|reply| matches!(reply, ProbeReply::Awaited))
    }

    /// Whether nothing at all was answered so far.
    fn is_silent(&self) -> bool {
        let is_awaited =
            |reply: &ProbeReply| matches!(reply, ProbeReply::Awaited | ProbeReply::NotAsked);
        !self.is_closed && is_awaited(&self.discover) && is_awaited(&self.initialize)
    }

    fn decide(&self) -> ProbeDecision {
        use ProbeReply::{Awaited, Given, NotAsked, Refused};
        let is_closed = self.is_closed;
        match (&self.initialize, &self.discover) {
            (Given(result), _) if matches!(**result, ServerResult::InitializeResult(_)) => {
                ProbeDecision::Session(HandshakeMode::Initialize)
            }
            (Awaited, Given(result)) if speaks_stateless(result) && !is_closed => {
                ProbeDecision::Stateless
            }
            (NotAsked | Refused(_) | Given(_), Given(result)) if speaks_stateless(result) => {
                ProbeDecision::Session(HandshakeMode::Discover)
            }
            (Awaited, _) | (_, Awaited) if is_closed => ProbeDecision::Failed(OpenError::Closed),
            (Awaited, _) | (_, Awaited) | (NotAsked, NotAsked) => ProbeDecision::Undecided,
            (NotAsked, Refused(error)) if !self.was_asked_again && lists_our_version(error) => {
                ProbeDecision::RetryDiscover
            }
            // A version that nobody knows, or an answer that says nothing: the process is not asked anything else.
            (NotAsked, Given(result))
                if matches!(
                    **result,
                    ServerResult::EmptyResult(_) | ServerResult::DiscoverResult(_)
                ) =>
            {
                let reason = "the answer to `server/discover` names no version that is known";
                ProbeDecision::Failed(OpenError::Other(reason.into()))
            }
            (NotAsked, Refused(_) | Given(_)) if is_closed => {
                ProbeDecision::Failed(OpenError::Closed)
            }
            (NotAsked, Refused(_) | Given(_)) => ProbeDecision::TryInitialize,
            (Refused(error), _) => ProbeDecision::Failed(OpenError::Refused {
                code: error.code.0,
                message: error.message.to_string(),
            }),
            (Given(_), _) => ProbeDecision::Failed(OpenError::Other(
                "the answer to `initialize` cannot be read".into(),
            )),
        }
    }

    fn into_probed(self, opening: HandshakeMode, winner: Winner) -> Probed<T> {
        let reply = match opening {
            HandshakeMode::Initialize => self.initialize,
            HandshakeMode::Discover | HandshakeMode::Probe => self.discover,
        };
        let answer = match reply {
            ProbeReply::Given(result) => *result,
            ProbeReply::NotAsked | ProbeReply::Awaited | ProbeReply::Refused(_) => {
                ServerResult::empty(())
            }
        };
        let request_ids = [INITIALIZE_ID, DISCOVER_ID, DISCOVER_RETRY_ID].map(RequestId::Number);
        Probed {
            transport: ReplayTransport::new(
                self.transport,
                answer,
                self.earlier,
                request_ids.into(),
            ),
            opening,
            winner,
        }
    }
}

fn speaks_stateless(result: &ServerResult) -> bool {
    matches!(result, ServerResult::DiscoverResult(result)
        if result.supported_versions.contains(&ProtocolVersion::V_2026_07_28))
}

/// Whether a server that objects to the version names it among those it speaks.
fn lists_our_version(error: &ErrorData) -> bool {
    let listed = || {
        let supported = error.data.as_ref()?.get("supported")?.as_array()?;
        let ours = ProtocolVersion::V_2026_07_28;
        Some(supported.iter().any(|version| version == ours.as_str()))
    };
    error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION && listed().unwrap_or(false)
}

#[cfg(test)]
mod tests;
