//! The legacy HTTP+SSE pair: one event stream brings everything the server says, and each message to it is posted to
//! an address that the stream names first.
//!
//! Nothing is resumed here: when the stream ends the transport has ended, and its owner connects again.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use futures::{StreamExt, stream::BoxStream};
use http::{Method, header};
use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    },
    transport::{
        Transport,
        common::http_header::{EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE},
        streamable_http_client::{SseError, StreamableHttpError},
    },
};
use sse_stream::Sse;
use url::Url;

use super::{
    decode::{self, ExpectedReply},
    http::{self as wire, HttpError, HttpPeer, MAX_MESSAGE_BYTES, PeerError},
};

/// A connection to a server of the HTTP+SSE kind.
pub struct SseTransport {
    peer: HttpPeer,
    /// Where messages are posted to.
    endpoint: Arc<str>,
    /// What the server says; `None` once the stream has ended.
    events: Option<BoxStream<'static, Result<Sse, SseError>>>,
    /// Requests without a reply yet, and what they asked for.
    waiting: HashMap<RequestId, ExpectedReply>,
    /// Replies made up here, for requests that cannot get one any more.
    failed: VecDeque<ServerJsonRpcMessage>,
}

impl SseTransport {
    /// Opens the stream and waits for the address to post to. The caller sets the time limit.
    pub async fn connect(peer: HttpPeer) -> Result<Self, PeerError> {
        let no_headers = HashMap::new();
        let response = peer
            .send_following_redirects(peer.url(), Method::GET, |hop| {
                let request = peer
                    .build_request(Method::GET, &hop, &no_headers, None)
                    .header(header::ACCEPT, EVENT_STREAM_MIME_TYPE);
                async move { Ok(request.send().await?) }
            })
            .await?;
        let response = wire::expect_success(response).await?;
        let base = response.url().clone();
        let mut events = wire::expect_events(response, MAX_MESSAGE_BYTES)?.boxed();
        let endpoint = endpoint(&base, &mut events).await?;
        Ok(Self {
            peer,
            endpoint: endpoint.as_str().into(),
            events: Some(events),
            waiting: HashMap::new(),
            failed: VecDeque::new(),
        })
    }

    /// Keeps count of the requests that wait for a reply.
    fn track_request(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                let expected = ExpectedReply::for_request(&request.request);
                self.waiting.insert(request.id.clone(), expected);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.waiting.remove(id);
                }
            }
            _ => {}
        }
    }

    /// The message in an event, if it holds one.
    fn parse_event(&mut self, event: &Sse) -> Option<ServerJsonRpcMessage> {
        if !matches!(event.event.as_deref(), None | Some("" | "message")) {
            return None;
        }
        let data = event.data.as_deref()?.as_bytes();
        let message: ServerJsonRpcMessage = match serde_json::from_slice(data) {
            Ok(message) => message,
            Err(error) => {
                tracing::debug!(%error, "skipped an SSE event that is not a JSON-RPC message");
                decode::too_deep_error(data)?
            }
        };
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        match id.and_then(|id| self.waiting.remove(id)) {
            Some(expected) if expected.is_offer() => decode::parse_response(data, expected).ok(),
            _ => Some(message),
        }
    }

    /// Ends the stream. Where a reply was too large, nobody knows whose it was: all that wait are told.
    fn end_stream(&mut self, last: Option<&Result<Sse, SseError>>) {
        self.events = None;
        if let Some(Err(error)) = last {
            tracing::warn!(%error, "SSE stream failed");
        }
        if let Some(cap) = last.and_then(wire::too_large) {
            self.failed.extend(
                self.waiting.drain().map(|(id, _)| {
                    ServerJsonRpcMessage::error(wire::too_large_error(cap), Some(id))
                }),
            );
        }
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = PeerError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), PeerError>> + Send + 'static {
        self.track_request(&message);
        let peer = self.peer.clone();
        let endpoint = self.endpoint.clone();
        async move {
            let body = bytes::Bytes::from(serde_json::to_vec(&message)?);
            let no_headers = HashMap::new();
            let response = peer
                .send_following_redirects(endpoint, Method::POST, |hop| {
                    let request = peer
                        .build_request(Method::POST, &hop, &no_headers, None)
                        .header(header::CONTENT_TYPE, JSON_MIME_TYPE)
                        .body(body.clone());
                    async move { Ok(request.send().await?) }
                })
                .await?;
            let response = wire::expect_success(response).await?;
            // The reply comes by the stream. Reading this body lets the connection be used again.
            wire::discard_body(response).await;
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.failed.pop_front() {
                return Some(message);
            }
            let event = self.events.as_mut()?.next().await;
            let Some(Ok(event)) = event else {
                self.end_stream(event.as_ref());
                continue;
            };
            if let Some(message) = self.parse_event(&event) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), PeerError> {
        self.events = None;
        Ok(())
    }
}

/// Waits for the `endpoint` event. Messages carry the user's headers, so they only go to the stream's own origin.
async fn endpoint(
    base: &Url,
    events: &mut BoxStream<'static, Result<Sse, SseError>>,
) -> Result<Url, PeerError> {
    let unusable = |reason: String| StreamableHttpError::Client(HttpError::Endpoint { reason });
    while let Some(event) = events.next().await {
        let event = event?;
        if event.event.as_deref() != Some("endpoint") {
            continue;
        }
        let address = event.data.unwrap_or_default();
        let endpoint = base
            .join(address.trim())
            .map_err(|error| unusable(error.to_string()))?;
        if endpoint.origin() != base.origin() {
            return Err(unusable(format!(
                "it is at {}, but the stream is at {}",
                endpoint.origin().ascii_serialization(),
                base.origin().ascii_serialization(),
            )));
        }
        return Ok(endpoint);
    }
    Err(StreamableHttpError::UnexpectedEndOfStream)
}
