//! What single requests tell about the server as a whole: that it may be gone, or has forgotten the MCP session.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::{StreamExt, stream::BoxStream};
use hermes_config::sync::{Mutex, MutexGuard};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage},
    transport::streamable_http_client::{
        SseError, StreamableHttpError, StreamableHttpPostResponse as PostReply,
    },
};
use sse_stream::Sse;

use super::{HttpError, PeerError, classify, reply};
use crate::transport::health::ConnectionHealth;

/// Watches the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct RequestObserver {
    health: Option<Arc<ConnectionHealth>>,
    /// The MCP session in which a request was answered last: one that works.
    proven_session: Mutex<Option<Arc<str>>>,
    /// Whether `initialize` was answered before.
    is_initialized: AtomicBool,
}

impl RequestObserver {
    /// An observer that reports to this health state.
    pub(super) fn reporting_to(doubt: Arc<ConnectionHealth>) -> Self {
        Self {
            health: Some(doubt),
            ..Self::default()
        }
    }

    fn lock_proven_session(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.proven_session.lock()
    }

    /// How much is known of the MCP session that a request names.
    pub(super) fn session_trust(&self, session_id: Option<&str>) -> reply::SessionTrust {
        match session_id {
            None => reply::SessionTrust::None,
            Some(id) if self.lock_proven_session().as_deref() == Some(id) => {
                reply::SessionTrust::Proven
            }
            Some(_) => reply::SessionTrust::New,
        }
    }

    /// Records what the outcome of a posted message says about the server.
    pub(super) fn observe_reply(
        &self,
        message: &ClientJsonRpcMessage,
        session_id: Option<&Arc<str>>,
        outcome: Result<PostReply, PeerError>,
    ) -> Result<PostReply, PeerError> {
        let Some(doubt) = &self.health else {
            return outcome;
        };
        let reply = match outcome {
            Ok(reply) => reply,
            Err(error) => {
                let is_lost_again = matches!(error, StreamableHttpError::SessionExpired)
                    && self.session_trust(session_id.map(AsRef::as_ref))
                        == reply::SessionTrust::New;
                if is_lost_again || is_connection_failure(&error) {
                    doubt.report_suspicion(|| describe(&error));
                }
                return Err(error);
            }
        };
        if let ClientJsonRpcMessage::Request(request) = message {
            if let Some(id) = session_id {
                *self.lock_proven_session() = Some(id.clone());
            }
            let is_refused = matches!(reply, PostReply::Json(JsonRpcMessage::Error(_), _));
            if matches!(request.request, ClientRequest::InitializeRequest(_)) {
                let is_again = self.is_initialized.swap(true, Ordering::AcqRel);
                match (is_again, is_refused) {
                    (true, true) => {
                        doubt.report_suspicion(|| "the server refuses another session".into());
                    }
                    (true, false) => doubt.record_renewal(),
                    (false, _) => {}
                }
            }
        }
        Ok(match reply {
            PostReply::Sse(events, session_id) => {
                PostReply::Sse(observe_events(events, doubt.clone()), session_id)
            }
            other => other,
        })
    }

    /// Records whether the standalone event stream could be opened.
    pub(super) fn observe_stream<T>(&self, outcome: &Result<T, PeerError>) {
        let Some(doubt) = &self.health else {
            return;
        };
        match outcome {
            Ok(_) => doubt.stream_opened(),
            // There is none, or not for us: that says nothing about the server.
            Err(
                StreamableHttpError::ServerDoesNotSupportSse
                | StreamableHttpError::AuthRequired(_)
                | StreamableHttpError::InsufficientScope(_)
                | StreamableHttpError::Client(HttpError::Auth(_) | HttpError::OAuth(_)),
            ) => {}
            Err(error) => {
                if doubt.stream_refused() || is_connection_failure(error) {
                    doubt.report_suspicion(|| describe(error));
                }
            }
        }
    }
}

/// Whether an error is one that a server's absence causes, by itself or by a proxy before it.
fn is_connection_failure(error: &PeerError) -> bool {
    matches!(
        error,
        StreamableHttpError::Client(
            HttpError::Request { .. }
                | HttpError::Status {
                    status: 502..=504,
                    ..
                }
        ) | StreamableHttpError::Io(_)
    )
}

fn describe(error: &PeerError) -> String {
    match classify(error) {
        Some(failure) => failure.to_string(),
        None => error.to_string(),
    }
}

/// A reply's events; one that breaks off may mean that the server has gone.
fn observe_events(
    events: BoxStream<'static, Result<Sse, SseError>>,
    doubt: Arc<ConnectionHealth>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    events
        .inspect(move |event| {
            if let Err(error) = event
                && reply::too_large(event).is_none()
            {
                doubt.report_suspicion(|| format!("the reply broke off: {error}"));
            }
        })
        .boxed()
}
