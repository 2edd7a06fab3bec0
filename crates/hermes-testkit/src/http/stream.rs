//! Event streams: the outlet a script writes to and the body a client reads from.

use std::{convert::Infallible, sync::Arc};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures::stream;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::log::RequestLogEntry;
use crate::{
    script::{Outlet, ServerScript},
    wire,
};

/// Something to be written to a client.
pub(super) enum SseEvent {
    Message(Value),
    /// An event with this many bytes of nothing.
    Oversized(usize),
}

impl SseEvent {
    fn is_final(&self) -> bool {
        match self {
            Self::Message(message) => wire::is_final(message),
            Self::Oversized(_) => true,
        }
    }

    fn encode(&self) -> Bytes {
        match self {
            Self::Message(message) => {
                format!("event: message\ndata: {}\n\n", wire::message_text(message)).into()
            }
            Self::Oversized(bytes) => format!("data: {}\n\n", "x".repeat(*bytes)).into(),
        }
    }
}

struct EventChannel(UnboundedSender<SseEvent>);

impl Outlet for EventChannel {
    fn send(&self, message: &Value) -> bool {
        self.0.send(SseEvent::Message(message.clone())).is_ok()
    }

    fn send_oversized(&self, bytes: usize) -> bool {
        self.0.send(SseEvent::Oversized(bytes)).is_ok()
    }
}

/// An outlet and the events that come out of it.
pub(super) fn channel() -> (Arc<dyn Outlet>, UnboundedReceiver<SseEvent>) {
    let (sender, events) = unbounded_channel();
    (Arc::new(EventChannel(sender)), events)
}

/// Notices when a client leaves before its request is answered.
pub(super) struct StreamWatch {
    entry: RequestLogEntry,
    /// The request to cancel, where leaving means cancelling.
    cancels: Option<(Arc<ServerScript>, String, Value)>,
    complete: bool,
}

impl StreamWatch {
    pub(super) fn new(entry: RequestLogEntry) -> Self {
        Self {
            entry,
            cancels: None,
            complete: false,
        }
    }

    /// Cancels this request when the client leaves.
    pub(super) fn cancelling(
        mut self,
        script: &Arc<ServerScript>,
        session: &str,
        id: Value,
    ) -> Self {
        self.cancels = Some((Arc::clone(script), session.to_owned(), id));
        self
    }

    pub(super) fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for StreamWatch {
    fn drop(&mut self) {
        if self.complete {
            return;
        }
        self.entry.mark_abandoned();
        if let Some((script, session, id)) = &self.cancels {
            script.cancel(session, id);
        }
    }
}

/// Whether a final message ends the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The stream belongs to one request.
    WithAnswer,
    /// The stream belongs to a client and lasts.
    Never,
}

/// An event stream that starts with `prefix` and `first`.
pub(super) fn event_stream(
    prefix: String,
    first: Option<SseEvent>,
    events: UnboundedReceiver<SseEvent>,
    watch: StreamWatch,
    ends: StreamEnd,
) -> Response {
    let prefix = (!prefix.is_empty()).then(|| Bytes::from(prefix));
    let body = stream::unfold(
        (prefix, first, events, watch),
        move |(prefix, first, mut events, mut watch)| async move {
            if let Some(prefix) = prefix {
                return Some((Ok::<_, Infallible>(prefix), (None, first, events, watch)));
            }
            if watch.complete {
                return None;
            }
            let event = match first {
                Some(event) => Some(event),
                None => events.recv().await,
            };
            let Some(event) = event else {
                watch.complete();
                return None;
            };
            if ends == StreamEnd::WithAnswer && event.is_final() {
                watch.complete();
            }
            Some((Ok(event.encode()), (None, None, events, watch)))
        },
    );
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(
        axum::http::header::CONTENT_TYPE,
        axum::http::HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(
        axum::http::header::CACHE_CONTROL,
        axum::http::HeaderValue::from_static("no-store"),
    );
    response
}
