//! Which of the two eras of the protocol a server speaks, and how that is found out.
//!
//! The stateless revision is asked for first (`server/discover`). Whatever else comes back, an error of any code, an
//! empty answer, silence, the end of the process, means that the server is an older one and wants `initialize`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hermes_config::server::ProtocolChoice;
use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ErrorCode, JsonRpcMessage, ProtocolVersion, ServerJsonRpcMessage,
    },
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::Transport,
};
use serde::{Deserialize, Serialize};

use crate::{
    session::Handler,
    transport::http::{HttpFailure, classify},
};

/// The two ways MCP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// Revision 2026-07-28: no handshake, no session.
    Stateless,
    /// The revisions that begin with `initialize`.
    Legacy,
}

impl Era {
    /// The word used in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stateless => "stateless",
            Self::Legacy => "legacy",
        }
    }
}

/// One way to open a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// `server/discover`, and `initialize` on the same connection if an error comes back.
    Probe,
    /// `server/discover` only.
    Discover,
    /// `initialize` only.
    Initialize,
}

/// The ways to try in turn, each on a fresh connection.
pub(crate) fn openings(choice: ProtocolChoice, remembered: Option<Era>) -> &'static [Opening] {
    use Opening::{Discover, Initialize, Probe};
    match (choice, remembered) {
        (ProtocolChoice::Stateless, _) => &[Discover],
        (ProtocolChoice::Legacy, _) => &[Initialize],
        (ProtocolChoice::Auto, None) => &[Probe, Initialize],
        (ProtocolChoice::Auto, Some(Era::Stateless)) => &[Discover, Probe, Initialize],
        (ProtocolChoice::Auto, Some(Era::Legacy)) => &[Initialize, Probe],
    }
}

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("the server wants a login")]
    Auth { challenge: Option<String> },
    #[error("the server did not answer `server/discover`")]
    Silent,
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
    pub(crate) fn may_be_the_era(&self) -> bool {
        match self {
            Self::Auth { .. } => false,
            Self::Silent | Self::Refused { .. } | Self::Closed | Self::Other(_) => true,
            Self::Http(failure) => matches!(failure, HttpFailure::Status(400..=499)),
        }
    }

    /// Whether the server objected to what `initialize` said.
    pub(crate) fn is_about_parameters(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == ErrorCode::INVALID_PARAMS.0)
    }

    fn from_startup(error: &ClientInitializeError) -> Self {
        if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
            return Self::from_startup(fallback);
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

/// Opens a session over a fresh transport.
pub(crate) async fn open<T>(
    handler: Handler,
    transport: T,
    opening: Opening,
    probe_limit: Duration,
) -> Result<(RunningService<RoleClient, Handler>, Era), OpenError>
where
    T: Transport<RoleClient> + 'static,
{
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let mode = match opening {
        Opening::Initialize => ClientLifecycleMode::Initialize,
        Opening::Discover => ClientLifecycleMode::Discover { preferred_versions },
        Opening::Probe => ClientLifecycleMode::Auto {
            preferred_versions,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    };
    let answered = Arc::new(AtomicBool::new(false));
    let transport = Listened {
        inner: transport,
        answered: answered.clone(),
    };
    let startup = handler.serve_with_lifecycle(transport, mode);
    let service = if opening == Opening::Initialize {
        startup.await
    } else {
        let mut startup = std::pin::pin!(startup);
        tokio::select! {
            done = &mut startup => done,
            () = tokio::time::sleep(probe_limit) => {
                // Silence ends the probe; a server that has answered may take its time for the rest.
                if !answered.load(Ordering::Acquire) {
                    return Err(OpenError::Silent);
                }
                startup.await
            }
        }
    };
    let service = service.map_err(|error| OpenError::from_startup(&error))?;
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

/// A transport that notices whether anything was ever answered.
struct Listened<T> {
    inner: T,
    answered: Arc<AtomicBool>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Listened<T> {
    type Error = T::Error;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_server_is_probed_and_then_started_afresh() {
        assert_eq!(
            openings(ProtocolChoice::Auto, None),
            [Opening::Probe, Opening::Initialize]
        );
    }

    #[test]
    fn a_remembered_era_is_tried_first_and_probed_again_when_it_stopped_fitting() {
        assert_eq!(
            openings(ProtocolChoice::Auto, Some(Era::Legacy))[0],
            Opening::Initialize
        );
        assert_eq!(
            openings(ProtocolChoice::Auto, Some(Era::Stateless))[..2],
            [Opening::Discover, Opening::Probe]
        );
    }

    #[test]
    fn a_fixed_protocol_allows_one_way_only() {
        for remembered in [None, Some(Era::Legacy), Some(Era::Stateless)] {
            assert_eq!(
                openings(ProtocolChoice::Legacy, remembered),
                [Opening::Initialize]
            );
            assert_eq!(
                openings(ProtocolChoice::Stateless, remembered),
                [Opening::Discover]
            );
        }
    }
}
