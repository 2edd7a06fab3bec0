//! Opens a session over a fresh transport, and tells what kind of failure stood in the way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ErrorCode, JsonRpcMessage, ProtocolVersion, ServerJsonRpcMessage,
    },
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::Transport,
};

use crate::{
    connection::{
        era::{Era, HandshakeMode},
        session::SessionHandler,
    },
    transport::{
        boxed::{BoxedTransport, BoxedTransportError},
        http::{HttpFailure, classify},
    },
};

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("the server needs a login")]
    Auth { challenge: Option<String> },
    #[error("the server did not answer `server/discover`")]
    NoReply,
    #[error("the server refused the handshake: {message} (code {code})")]
    Refused { code: i32, message: String },
    #[error("{0}")]
    Http(HttpFailure),
    #[error("the server closed the connection during the handshake")]
    Closed,
    #[error("the handshake failed: {0}")]
    Other(String),
}

impl OpenError {
    /// Whether another way of opening may fare better.
    pub(super) fn suggests_other_era(&self) -> bool {
        match self {
            Self::Auth { .. } => false,
            Self::NoReply | Self::Refused { .. } | Self::Closed | Self::Other(_) => true,
            Self::Http(failure) => matches!(failure, HttpFailure::Status(400..=499)),
        }
    }

    /// Whether the server objected to what `initialize` said.
    pub(super) fn is_invalid_params(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == ErrorCode::INVALID_PARAMS.0)
    }

    fn from_initialize_error(error: &ClientInitializeError) -> Self {
        if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
            return Self::from_initialize_error(fallback);
        }
        if let Some(failure) = classify(error) {
            return match failure {
                HttpFailure::Auth { challenge }
                | HttpFailure::Forbidden {
                    challenge: challenge @ Some(_),
                } => Self::Auth { challenge },
                other => Self::Http(other),
            };
        }
        match error {
            ClientInitializeError::JsonRpcError(error) => Self::Refused {
                code: error.code.0,
                message: error.message.to_string(),
            },
            ClientInitializeError::ConnectionClosed(_)
            | ClientInitializeError::TransportError { .. } => Self::Closed,
            other => Self::Other(other.to_string()),
        }
    }
}

/// How long a probe waits for the first reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeTimeout {
    /// After this long the server is given up and started again.
    After(Duration),
    /// Only the limit of the whole attempt ends the waiting.
    Never,
}

/// Opens a session over a fresh transport.
pub(super) async fn open_session(
    handler: SessionHandler,
    transport: BoxedTransport,
    opening: HandshakeMode,
    silence: ProbeTimeout,
) -> Result<(RunningService<RoleClient, SessionHandler>, Era), OpenError> {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let mode = match opening {
        HandshakeMode::Initialize => ClientLifecycleMode::Initialize,
        HandshakeMode::Discover => ClientLifecycleMode::Discover { preferred_versions },
        HandshakeMode::Probe => ClientLifecycleMode::Auto {
            preferred_versions,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    };
    let answered = Arc::new(AtomicBool::new(false));
    let transport = ReplyObserver {
        inner: transport,
        answered: answered.clone(),
    };
    let startup = handler.serve_with_lifecycle(transport, mode);
    let service = match silence {
        ProbeTimeout::After(limit) if opening != HandshakeMode::Initialize => {
            let mut startup = std::pin::pin!(startup);
            tokio::select! {
                done = &mut startup => done,
                () = tokio::time::sleep(limit) => {
                    // A server that has answered may take its time for the rest.
                    if !answered.load(Ordering::Acquire) {
                        return Err(OpenError::NoReply);
                    }
                    startup.await
                }
            }
        }
        _ => startup.await,
    };
    let service = service.map_err(|error| OpenError::from_initialize_error(&error))?;
    let is_stateless = service
        .peer()
        .peer_info()
        .is_some_and(|info| !info.protocol_version.has_initialize());
    Ok((
        service,
        if is_stateless {
            Era::Stateless
        } else {
            Era::Legacy
        },
    ))
}

/// A transport that records whether a response was received.
struct ReplyObserver {
    inner: BoxedTransport,
    answered: Arc<AtomicBool>,
}

impl Transport<RoleClient> for ReplyObserver {
    type Error = BoxedTransportError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.inner.receive().await;
        if matches!(
            message,
            Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
        ) {
            self.answered.store(true, Ordering::Release);
        }
        message
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
