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
use crate::{era::Opening, transport::replay::ReplayTransport};

/// The id that rmcp begins with: it uses it for the request that repeats ours.
const INITIALIZE: i64 = 0;
/// Ids that no session ever reaches.
const DISCOVER: i64 = i32::MAX as i64;
const DISCOVER_AGAIN: i64 = DISCOVER - 1;

/// How long an answer to `initialize` is awaited when the one to `server/discover` has come.
const INITIALIZE_GRACE: Duration = Duration::from_secs(1);
/// Messages of a server before its first answer that are kept: logging, mostly.
const MOST_EARLIER: usize = 64;

/// When a silent server is asked in another way, from its start on.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeTimes {
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
    pub(super) opening: Opening,
    pub(super) winner: Winner,
}

/// Asks a server that was just started which era it speaks.
///
/// `start_second` starts another process of it; `None` if that is not possible.
pub(super) async fn probe<T: Transport<RoleClient>>(
    first: T,
    config: &ClientConfig,
    times: ProbeTimes,
    start_second: impl AsyncFnOnce() -> Option<T>,
) -> Result<Probed<T>, OpenError> {
    let began = Instant::now();
    let at = |after: Option<Duration>| after.map(|after| began + after);
    let (mut initialize_at, mut second_at) = (at(times.initialize), at(times.second));
    let mut start_second = Some(start_second);
    let mut stateless_at = None;
    let mut second: Option<Candidate<T>> = None;
    let mut failed = None;
    let mut first = Some(Candidate::new(first));
    if let Some(first) = &mut first {
        first.ask_discover(config, DISCOVER).await;
    }
    loop {
        tokio::select! {
            () = hear(&mut first) => {}
            () = hear(&mut second) => {}
            () = until(initialize_at) => {
                initialize_at = None;
                if let Some(first) = first.as_mut().filter(|first| first.is_silent()) {
                    first.ask_initialize(config).await;
                }
            }
            () = until(second_at) => {
                second_at = None;
                let is_silent = first.as_ref().is_some_and(Candidate::is_silent);
                if let Some(start) = start_second.take().filter(|_| is_silent) {
                    second = start().await.map(Candidate::new);
                    if let Some(second) = &mut second {
                        second.ask_initialize(config).await;
                    }
                }
            }
            () = until(stateless_at) => {
                stateless_at = None;
                if let Some(first) = first.take() {
                    return Ok(first.won(Opening::Discover, Winner::First));
                }
            }
        }
        for (candidate, winner) in [(&mut first, Winner::First), (&mut second, Winner::Second)] {
            let Some(asked) = candidate else { continue };
            match asked.decide() {
                Verdict::Open => {}
                Verdict::Stateless => {
                    stateless_at = stateless_at.or(Some(Instant::now() + INITIALIZE_GRACE));
                }
                Verdict::AskAgain => asked.ask_discover(config, DISCOVER_AGAIN).await,
                Verdict::AskInitialize => asked.ask_initialize(config).await,
                Verdict::Session(opening) => {
                    if let Some(candidate) = candidate.take() {
                        return Ok(candidate.won(opening, winner));
                    }
                }
                Verdict::Failed(error) => {
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
async fn hear<T: Transport<RoleClient>>(candidate: &mut Option<Candidate<T>>) {
    match candidate {
        Some(candidate) if !candidate.is_closed => {
            let message = pin!(candidate.transport.receive()).await;
            candidate.take_in(message).await;
        }
        _ => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What became of one request.
#[derive(Debug)]
enum Reply {
    NotAsked,
    Awaited,
    Given(Box<ServerResult>),
    Refused(ErrorData),
}

/// What the answers of a candidate mean.
enum Verdict {
    /// More is to come.
    Open,
    /// It speaks the stateless era, unless it answers `initialize` as well.
    Stateless,
    AskAgain,
    AskInitialize,
    Session(Opening),
    Failed(OpenError),
}

/// One process that is asked.
struct Candidate<T> {
    transport: T,
    discover: Reply,
    initialize: Reply,
    was_asked_again: bool,
    earlier: VecDeque<ServerJsonRpcMessage>,
    is_closed: bool,
}

impl<T: Transport<RoleClient>> Candidate<T> {
    fn new(transport: T) -> Self {
        Self {
            transport,
            discover: Reply::NotAsked,
            initialize: Reply::NotAsked,
            was_asked_again: false,
            earlier: VecDeque::new(),
            is_closed: false,
        }
    }

    async fn ask_discover(&mut self, config: &ClientConfig, id: i64) {
        let mut request = DiscoverRequest::new(DiscoverRequestParams {});
        request
            .extensions
            .insert(RequestMetaObject::with_client_context(
                ProtocolVersion::V_2026_07_28,
                config.client_info.clone(),
                config.capabilities.clone(),
            ));
        self.discover = Reply::Awaited;
        self.was_asked_again = id == DISCOVER_AGAIN;
        self.ask(ClientRequest::DiscoverRequest(request), id).await;
    }

    async fn ask_initialize(&mut self, config: &ClientConfig) {
        let request = InitializeRequest::new(config.clone());
        self.initialize = Reply::Awaited;
        self.ask(ClientRequest::InitializeRequest(request), INITIALIZE)
            .await;
    }

    async fn ask(&mut self, request: ClientRequest, id: i64) {
        let request = ClientJsonRpcMessage::request(request, RequestId::Number(id));
        self.send(request).await;
    }

    /// A server that cannot be written to any more is one that has closed its end, which the next read shows.
    async fn send(&mut self, message: ClientJsonRpcMessage) {
        if let Err(error) = self.transport.send(message).await {
            tracing::debug!(%error, "sending a probe request failed");
        }
    }

    async fn take_in(&mut self, message: Option<ServerJsonRpcMessage>) {
        match message {
            None => self.is_closed = true,
            Some(JsonRpcMessage::Response(response)) => {
                if let Some(reply) = self.reply_to(Some(&response.id)) {
                    *reply = Reply::Given(Box::new(response.result));
                }
            }
            Some(JsonRpcMessage::Error(error)) => {
                if let Some(reply) = self.reply_to(error.id.as_ref()) {
                    *reply = Reply::Refused(error.error);
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
                if self.earlier.len() < MOST_EARLIER {
                    self.earlier.push_back(notification);
                }
            }
            #[expect(unreachable_patterns, reason = "kinds of messages may be added")]
            Some(_) => {}
        }
    }

    /// The request that an answer belongs to. An error without a number answers what was asked first.
    fn reply_to(&mut self, id: Option<&RequestId>) -> Option<&mut Reply> {
        let asked = match id.map(ToString::to_string) {
            Some(id) if id == INITIALIZE.to_string() => &mut self.initialize,
            Some(id) if id == DISCOVER.to_string() && self.was_asked_again => return None,
            Some(_) => &mut self.discover,
            None if matches!(self.discover, Reply::Awaited) => &mut self.discover,
            None => &mut self.initialize,
        };
        Some(asked).filter(|reply| matches!(reply, Reply::Awaited))
    }

    /// Whether nothing at all was answered so far.
    fn is_silent(&self) -> bool {
        let is_awaited = |reply: &Reply| matches!(reply, Reply::Awaited | Reply::NotAsked);
        !self.is_closed && is_awaited(&self.discover) && is_awaited(&self.initialize)
    }

    fn decide(&self) -> Verdict {
        use Reply::{Awaited, Given, NotAsked, Refused};
        let is_closed = self.is_closed;
        match (&self.initialize, &self.discover) {
            (Given(result), _) if matches!(**result, ServerResult::InitializeResult(_)) => {
                Verdict::Session(Opening::Initialize)
            }
            (Awaited, Given(result)) if speaks_stateless(result) && !is_closed => {
                Verdict::Stateless
            }
            (NotAsked | Refused(_) | Given(_), Given(result)) if speaks_stateless(result) => {
                Verdict::Session(Opening::Discover)
            }
            (Awaited, _) | (_, Awaited) if is_closed => Verdict::Failed(OpenError::Closed),
            (Awaited, _) | (_, Awaited) | (NotAsked, NotAsked) => Verdict::Open,
            (NotAsked, Refused(error)) if !self.was_asked_again && lists_our_version(error) => {
                Verdict::AskAgain
            }
            // A version that nobody knows, or an answer that says nothing: the process is not asked anything else.
            (NotAsked, Given(result))
                if matches!(
                    **result,
                    ServerResult::EmptyResult(_) | ServerResult::DiscoverResult(_)
                ) =>
            {
                let reason = "the answer to `server/discover` names no version that is known";
                Verdict::Failed(OpenError::Other(reason.into()))
            }
            (NotAsked, Refused(_) | Given(_)) if is_closed => Verdict::Failed(OpenError::Closed),
            (NotAsked, Refused(_) | Given(_)) => Verdict::AskInitialize,
            (Refused(error), _) => Verdict::Failed(OpenError::Refused {
                code: error.code.0,
                message: error.message.to_string(),
            }),
            (Given(_), _) => Verdict::Failed(OpenError::Other(
                "the answer to `initialize` cannot be read".into(),
            )),
        }
    }

    fn won(self, opening: Opening, winner: Winner) -> Probed<T> {
        let reply = match opening {
            Opening::Initialize => self.initialize,
            Opening::Discover | Opening::Probe => self.discover,
        };
        let answer = match reply {
            Reply::Given(result) => *result,
            Reply::NotAsked | Reply::Awaited | Reply::Refused(_) => ServerResult::empty(()),
        };
        let asked = [INITIALIZE, DISCOVER, DISCOVER_AGAIN].map(RequestId::Number);
        Probed {
            transport: ReplayTransport::new(self.transport, answer, self.earlier, asked.into()),
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
