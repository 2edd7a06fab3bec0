//! One request to a server, from waiting for its session to its response: timeout, progress, input rounds, cancellation.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hermes_config::ServerName;
use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, ClientRequest, ErrorData, GetPromptRequest,
        GetPromptRequestParams, InputRequiredResult, InputResponses, ReadResourceRequest,
        ReadResourceRequestParams, ServerResult,
    },
    service::{PeerRequestOptions, RequestHandle, ServiceError},
};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use crate::{
    connection::{
        failure::strip_type_names,
        handle::ServerHandle,
        link::{LinkStatus, LoginAdvice},
        session::{CallEvent, McpSession, Progress},
    },
    server_request::{CallId, ConversationId},
    tools::pins::ChangedToolAdvice,
    transport::http::{HttpFailure, classify},
};

pub mod arguments;
pub mod batch;
pub mod content;
mod deadline;
pub mod outcome;
mod trace;
mod waiting;

pub(crate) use waiting::{acquire_session, check_pin};

use self::{deadline::CallDeadline, outcome::CallFailure};

/// How often a server may ask for input during one call.
const MAX_INPUT_ROUNDS: usize = 10;

/// Takes the progress of a call.
pub type ProgressCallback = Arc<dyn Fn(&Progress) + Send + Sync>;

#[derive(Clone, Default)]
pub struct CallOptions {
    /// Instead of the server's own `timeout`.
    pub timeout: Option<Duration>,
    /// Where questions of the server appear.
    pub conversation: Option<ConversationId>,
    pub cancel: CancellationToken,
    /// Is told about progress.
    pub on_progress: Option<ProgressCallback>,
}

impl std::fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallOptions")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Why a call has no answer. Texts are not redacted yet.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// No session, and none could be had in time.
    #[error("server `{server}` is {status}{}", detail.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    NotConnected {
        server: ServerName,
        /// Its state when waiting ended.
        status: LinkStatus,
        /// Its last error.
        detail: Option<String>,
    },
    #[error("server `{server}` needs a login; run `hermes mcp login {server}`")]
    NeedsAuth {
        server: ServerName,
        need: LoginReason,
    },
    /// Too many calls in a row failed to reach the server.
    #[error(
        "server `{server}` failed several calls in a row; calls are refused for {} s more",
        remaining.as_secs().max(1)
    )]
    CircuitOpen {
        server: ServerName,
        /// Until calls pass again.
        remaining: Duration,
    },
    /// It took too long.
    #[error("the call timed out after {:.1} s (allowed: {:.1} s)", elapsed.as_secs_f64(), allowed.as_secs_f64())]
    TimedOut {
        elapsed: Duration,
        /// How long it might.
        allowed: Duration,
    },
    #[error("interrupted by the user")]
    Interrupted,
    /// The server answered with a protocol error.
    #[error("{message}")]
    Refused { code: i32, message: String },
    /// The connection broke, or the way to the server did not let the call through.
    #[error("{}", describe_lost(server, detail.as_deref()))]
    ConnectionLost {
        server: ServerName,
        detail: Option<String>,
        /// Whether the server cannot have seen the request.
        is_unsent: bool,
    },
    /// The tool is not what it was when it was accepted, under `pin_tools: block`.
    #[error(
        "tool `{}` of server `{}` is withheld, because its definition has changed; {}",
        .0.tool, .0.server, .0
    )]
    Withheld(ChangedToolAdvice),
    /// The server said that its tools have changed, and did not say how, under `pin_tools: block`.
    #[error(
        "the tools of server `{server}` have changed and could not be listed again; try again in a moment"
    )]
    ToolListStale { server: ServerName },
    /// The server asked back again and again.
    #[error("the server requested input more than {MAX_INPUT_ROUNDS} times in one call")]
    TooManyInputRounds,
    /// An answer of a shape that fits no request.
    #[error("the server's reply has an unknown format: {0}")]
    UnexpectedResponse(String),
}

impl CallError {
    /// What the model is told about it.
    pub(crate) fn into_failure(self, handle: &ServerHandle) -> CallFailure {
        match self {
            Self::NeedsAuth { server, .. } => CallFailure::LoginNeeded {
                server: server.to_string(),
                advice: LoginAdvice::log_in(server, handle.tenant.as_deref()),
            },
            Self::TimedOut { elapsed, allowed } => CallFailure::TimedOut { elapsed, allowed },
            Self::Interrupted => CallFailure::Interrupted,
            other => {
                let mut text = handle.redact(&other.to_string());
                handle.add_sandbox_note(&mut text);
                CallFailure::Transport(text)
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginReason {
    /// To use the server at all.
    Access {
        /// Why, as far as that is known.
        reason: Option<String>,
    },
    /// For more rights than the login has; other calls still work.
    Scope,
}

/// A request that a server may answer with requests for input first.
#[derive(Debug, Clone)]
pub(crate) enum CallRequest {
    Tool(CallToolRequestParams),
    Resource(ReadResourceRequestParams),
    Prompt(GetPromptRequestParams),
}

impl CallRequest {
    fn to_message(&self) -> ClientRequest {
        match self {
            Self::Tool(params) => {
                ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()))
            }
            Self::Resource(params) => {
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params.clone()))
            }
            Self::Prompt(params) => {
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params.clone()))
            }
        }
    }

    fn set_input_responses(&mut self, responses: InputResponses, state: Option<String>) {
        let responses = (!responses.is_empty()).then_some(responses);
        let (input, request_state) = match self {
            Self::Tool(params) => (&mut params.input_responses, &mut params.request_state),
            Self::Resource(params) => (&mut params.input_responses, &mut params.request_state),
            Self::Prompt(params) => (&mut params.input_responses, &mut params.request_state),
        };
        *input = responses;
        *request_state = state;
    }
}

static NEXT_CALL: AtomicU64 = AtomicU64::new(1);

/// Sends a request and waits for its result, answering requests for input on the way.
pub(crate) async fn execute_request(
    session: &Arc<McpSession>,
    request: &CallRequest,
    timeout: Duration,
    options: &CallOptions,
    background: &TaskTracker,
) -> Result<ServerResult, CallError> {
    let span = trace::request_span(session, request);
    let result = execute_rounds(session, request, timeout, options, background)
        .instrument(span.clone())
        .await;
    trace::record_result(&span, &result);
    result
}

async fn execute_rounds(
    session: &Arc<McpSession>,
    request: &CallRequest,
    timeout: Duration,
    options: &CallOptions,
    background: &TaskTracker,
) -> Result<ServerResult, CallError> {
    let _busy = session.activity.start_call();
    // Arguments may be large: they are copied into each message, and not otherwise unless questions are answered.
    let mut request = Cow::Borrowed(request);
    let call = CallId(NEXT_CALL.fetch_add(1, Ordering::Relaxed));
    let mut clock = CallDeadline::start(timeout);
    for round in 0..MAX_INPUT_ROUNDS {
        let mut message = request.to_message();
        trace::add_context(&mut message);
        let mut sent = PendingRequest::send(session, message, background).await?;
        let (event_sender, mut events) = mpsc::unbounded_channel();
        let handle = sent.handle()?;
        let _followed = session.activity.subscribe_call(
            handle.progress_token.clone(),
            handle.id.clone(),
            call,
            options.conversation.clone(),
            event_sender,
        );
        let result = sent
            .await_result(session, &mut clock, options, &mut events)
            .await?;
        let ServerResult::InputRequiredResult(questions) = result else {
            return Ok(result);
        };
        let origin = sent.id.clone();
        let asked_at = Instant::now();
        let InputRequiredResult {
            input_requests,
            request_state,
            ..
        } = questions;
        let requests = input_requests.unwrap_or_default();
        if requests.is_empty() && request_state.is_none() {
            return Err(CallError::UnexpectedResponse(
                "input required, but nothing asked".into(),
            ));
        }
        let answering = async {
            if requests.is_empty() {
                // Only the server's own state moves on: it is polling us, so not too fast.
                tokio::time::sleep(Duration::from_millis(50 << round.min(5))).await;
            }
            session
                .handler
                .answer_input_requests(requests, &origin)
                .await
        };
        let answers = tokio::select! {
            answers = answering => answers.map_err(refused_error)?,
            () = options.cancel.cancelled() => return Err(CallError::Interrupted),
            () = session.ended.cancelled() => return Err(lost_error(session, None, false)),
        };
        request.to_mut().set_input_responses(answers, request_state);
        clock.extend(asked_at.elapsed());
    }
    Err(CallError::TooManyInputRounds)
}

/// A request on its way. Dropped before its answer, it is cancelled at the server too.
struct PendingRequest<'a> {
    handle: Option<RequestHandle<RoleClient>>,
    id: rmcp::model::RequestId,
    background: &'a TaskTracker,
}

impl<'a> PendingRequest<'a> {
    async fn send(
        session: &McpSession,
        message: ClientRequest,
        background: &'a TaskTracker,
    ) -> Result<Self, CallError> {
        let handle = session
            .peer
            .send_request_with_option(message, PeerRequestOptions::no_options())
            .await
            .map_err(|error| to_call_error(session, &error, true))?;
        Ok(Self {
            id: handle.id.clone(),
            handle: Some(handle),
            background,
        })
    }

    fn handle(&mut self) -> Result<&mut RequestHandle<RoleClient>, CallError> {
        self.handle.as_mut().ok_or(CallError::Interrupted)
    }

    async fn await_result(
        &mut self,
        session: &McpSession,
        clock: &mut CallDeadline,
        options: &CallOptions,
        events: &mut mpsc::UnboundedReceiver<CallEvent>,
    ) -> Result<ServerResult, CallError> {
        let handle = self.handle()?;
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => break answer,
                () = options.cancel.cancelled() => return Err(CallError::Interrupted),
                Some(event) = events.recv() => match event {
                    CallEvent::Progress(progress) => {
                        clock.restart();
                        if let Some(sink) = &options.on_progress {
                            sink(&progress);
                        }
                    }
                    CallEvent::InputStarted => clock.pause(),
                    CallEvent::InputFinished => clock.resume(),
                },
                (elapsed, allowed) = clock.expired() => {
                    return Err(CallError::TimedOut { elapsed, allowed });
                }
            }
        };
        // Answered, one way or the other: there is nothing left to cancel.
        self.handle = None;
        match answer {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(ServiceError::TransportClosed)) => {
                let reason = "the server ended its reply before the result";
                session.activity.health.report_suspicion(|| reason.into());
                Err(lost_error(session, None, false))
            }
            Ok(Err(error)) => Err(to_call_error(
                session,
                &error,
                matches!(error, ServiceError::TransportSend(_)),
            )),
            Err(_) => {
                // The task that passes responses on has ended.
                session.ended.cancel();
                Err(lost_error(session, None, false))
            }
        }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.background.spawn(async move {
                let _ = handle
                    .cancel(Some("the caller stopped waiting".into()))
                    .await;
            });
        }
    }
}

fn refused_error(error: ErrorData) -> CallError {
    CallError::Refused {
        code: error.code.0,
        message: error.message.into_owned(),
    }
}

fn describe_lost(server: &ServerName, detail: Option<&str>) -> String {
    match detail {
        Some(detail) => {
            // Some causes have an empty first half.
            let detail = detail.trim_start_matches([':', ' ']);
            format!("the connection to `{server}` failed during the call: {detail}")
        }
        None => format!("the connection to `{server}` was lost during the call"),
    }
}

fn lost_error(session: &McpSession, detail: Option<String>, is_unsent: bool) -> CallError {
    CallError::ConnectionLost {
        server: session.server.clone(),
        detail,
        is_unsent,
    }
}

fn to_call_error(session: &McpSession, error: &ServiceError, was_sending: bool) -> CallError {
    match error {
        ServiceError::McpError(error) => refused_error(error.clone()),
        ServiceError::TransportSend(transport) => match classify(transport) {
            Some(HttpFailure::Auth { challenge }) => CallError::NeedsAuth {
                server: session.server.clone(),
                need: LoginReason::Access { reason: challenge },
            },
            Some(HttpFailure::Forbidden { challenge: Some(_) }) => CallError::NeedsAuth {
                server: session.server.clone(),
                need: LoginReason::Scope,
            },
            // The request may have been processed unless it never got through.
            Some(failure) => {
                let is_unsent = matches!(failure, HttpFailure::Connect(_) | HttpFailure::Tls(_));
                lost_error(
                    session,
                    Some(strip_type_names(&failure.to_string())),
                    is_unsent,
                )
            }
            None => {
                let detail = strip_type_names(&transport.error.to_string());
                lost_error(session, Some(detail), was_sending)
            }
        },
        ServiceError::TransportClosed => lost_error(session, None, was_sending),
        other => CallError::UnexpectedResponse(strip_type_names(&other.to_string())),
    }
}
