//! Event streams: the outlet a script writes to and the body a client reads from.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::log::Entry;
use crate::script::{Outlet, Script};
use crate::wire;

/// Something to be written to a client.
pub(super) enum Event {
    Message(Value),
    /// An event with this many bytes of nothing.
    Oversized(usize),
}

impl Event {
    fn is_final(&self) -> bool {
        match self {
            Self::Message(message) => wire::is_final(message),
            Self::Oversized(_) => true,
        }
    }

    fn encode(&self) -> Bytes {
        match self {
            Self::Message(message) => {
                format!("event: message\ndata: {}\n\n", wire::text(message)).into()
            }
            Self::Oversized(bytes) => format!("data: {}\n\n", "x".repeat(*bytes)).into(),
        }
    }
}

struct Channel(UnboundedSender<Event>);

impl Outlet for Channel {
    fn send(&self, message: &Value) -> bool {
        self.0.send(Event::Message(message.clone())).is_ok()
    }

    fn send_oversized(&self, bytes: usize) -> bool {
        self.0.send(Event::Oversized(bytes)).is_ok()
    }
}

/// An outlet and the events that come out of it.
pub(super) fn channel() -> (Arc<dyn Outlet>, UnboundedReceiver<Event>) {
    let (sender, events) = unbounded_channel();
    (Arc::new(Channel(sender)), events)
}

/// Notices when a client leaves before its request is answered.
pub(super) struct Watch {
    entry: Entry,
    /// The request to cancel, where leaving means cancelling.
    cancels: Option<(Arc<Script>, String, Value)>,
    complete: bool,
}

impl Watch {
    pub(super) fn new(entry: Entry) -> Self {
        Self {
            entry,
            cancels: None,
            complete: false,
        }
    }

    /// Cancels this request when the client leaves.
    pub(super) fn cancelling(mut self, script: &Arc<Script>, session: &str, id: Value) -> Self {
        self.cancels = Some((Arc::clone(script), session.to_owned(), id));
        self
    }

    pub(super) fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for Watch {
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
pub(super) enum Ends {
    /// The stream belongs to one request.
    WithAnswer,
    /// The stream belongs to a client and lasts.
    Never,
}

/// An event stream that starts with `prefix` and `first`.
pub(super) fn event_stream(
    prefix: String,
    first: Option<Event>,
    events: UnboundedReceiver<Event>,
    watch: Watch,
    ends: Ends,
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
            if ends == Ends::WithAnswer && event.is_final() {
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
