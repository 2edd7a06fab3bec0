//! What single requests tell about the server as a whole: that it may be gone, or has forgotten the MCP session.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use futures::{StreamExt, stream::BoxStream};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage},
    transport::streamable_http_client::{
        SseError, StreamableHttpError, StreamableHttpPostResponse as PostReply,
    },
};
use sse_stream::Sse;

use super::{HttpError, PeerError, classify, reply};
use crate::session::Doubt;

/// Watches the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct RequestWatch {
    doubt: Option<Arc<Doubt>>,
    /// The MCP session in which a request was answered last: one that works.
    proven: Mutex<Option<Arc<str>>>,
    /// Whether `initialize` was answered before.
    is_initialized: AtomicBool,
}

impl RequestWatch {
    /// An observer that reports to this health state.
    pub(super) fn telling(doubt: Arc<Doubt>) -> Self {
        Self {
            doubt: Some(doubt),
            ..Self::default()
        }
    }

    fn proven(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much is known of the MCP session that a request names.
    pub(super) fn session(&self, session_id: Option<&str>) -> reply::Session {
        match session_id {
            None => reply::Session::None,
            Some(id) if self.proven().as_deref() == Some(id) => reply::Session::Proven,
            Some(_) => reply::Session::New,
        }
    }

    /// Records what the outcome of a posted message says about the server.
    pub(super) fn see_reply(
        &self,
        message: &ClientJsonRpcMessage,
        session_id: Option<&Arc<str>>,
        outcome: Result<PostReply, PeerError>,
    ) -> Result<PostReply, PeerError> {
        let Some(doubt) = &self.doubt else {
            return outcome;
        };
        let reply = match outcome {
            Ok(reply) => reply,
            Err(error) => {
                let is_lost_again = matches!(error, StreamableHttpError::SessionExpired)
                    && self.session(session_id.map(AsRef::as_ref)) == reply::Session::New;
                if is_lost_again || is_trouble(&error) {
                    doubt.raise(|| describe(&error));
                }
                return Err(error);
            }
        };
        if let ClientJsonRpcMessage::Request(request) = message {
            if let Some(id) = session_id {
                *self.proven() = Some(id.clone());
            }
            let is_refused = matches!(reply, PostReply::Json(JsonRpcMessage::Error(_), _));
            if matches!(request.request, ClientRequest::InitializeRequest(_)) {
                let is_again = self.is_initialized.swap(true, Ordering::AcqRel);
                match (is_again, is_refused) {
                    (true, true) => doubt.raise(|| "the server refuses another session".into()),
                    (true, false) => doubt.renewed(),
                    (false, _) => {}
                }
            }
        }
        Ok(match reply {
            PostReply::Sse(events, session_id) => {
                PostReply::Sse(watched(events, doubt.clone()), session_id)
            }
            other => other,
        })
    }

    /// Records whether the standalone event stream could be opened.
    pub(super) fn see_stream<T>(&self, outcome: &Result<T, PeerError>) {
        let Some(doubt) = &self.doubt else {
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
                if doubt.stream_refused() || is_trouble(error) {
                    doubt.raise(|| describe(error));
                }
            }
        }
    }
}

/// Whether an error is one that a server's absence causes, by itself or by a proxy before it.
fn is_trouble(error: &PeerError) -> bool {
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
fn watched(
    events: BoxStream<'static, Result<Sse, SseError>>,
    doubt: Arc<Doubt>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    events
        .inspect(move |event| {
            if let Err(error) = event
                && reply::too_large(event).is_none()
            {
                doubt.raise(|| format!("the reply broke off: {error}"));
            }
        })
        .boxed()
}
