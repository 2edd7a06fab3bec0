//! What a server answered to a posted message.

use futures::{Stream, StreamExt, stream};
use http::{StatusCode, header};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
        ServerJsonRpcMessage, ServerResult,
    },
    transport::{
        common::http_header::{EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE},
        streamable_http_client::{
            SseError, StreamableHttpError, StreamableHttpPostResponse as PostReply,
        },
    },
};
use serde_json::json;
use sse_stream::Sse;

use super::{HttpError, MAX_MESSAGE_BYTES, PeerError, content_type, error, has_type, size};
use crate::transport::decode::{self, ExpectedReply};

/// Under this key of a JSON-RPC error's data stands the limit that a reply broke.
const TOO_LARGE_KEY: &str = "hermes/messageTooLarge";

/// The MCP session that a request named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionTrust {
    /// Requests were answered in it.
    Proven,
    /// Nothing was answered in it yet.
    New,
    None,
}

/// Turns the reply to a posted message into what rmcp's transport expects.
pub(super) async fn read_post_reply(
    response: reqwest::Response,
    message: &ClientJsonRpcMessage,
    session: SessionTrust,
    event_cap: usize,
) -> Result<PostReply, PeerError> {
    let status = response.status();
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(PostReply::Accepted);
    }
    if !status.is_success() {
        return read_refusal(response, message, session).await;
    }

    let request_id = request_id(message);
    let expected = match message {
        ClientJsonRpcMessage::Request(request) => ExpectedReply::for_request(&request.request),
        _ => ExpectedReply::Other,
    };
    let session_id = header_text(&response, HEADER_SESSION_ID);
    let content_type = content_type(&response);
    if has_type(content_type, EVENT_STREAM_MIME_TYPE) {
        let events =
            size::read_events(response, event_cap).map(move |event| keep_whole(event, expected));
        return Ok(PostReply::Sse(
            fail_oversized(events, request_id.cloned()),
            session_id,
        ));
    }
    if has_type(content_type, JSON_MIME_TYPE) {
        let body = size::read_body(response, MAX_MESSAGE_BYTES)
            .await
            .map_err(StreamableHttpError::Client)?;
        return match decode::parse_response(&body, expected) {
            Ok(reply) => Ok(PostReply::Json(reply, session_id)),
            // Only a request needs a reply; some servers send `{}` or `null` for the rest.
            Err(_) if request_id.is_none() => Ok(PostReply::Accepted),
            Err(error) if decode::response_id(&body).is_some() => {
                let unreadable = decode::unreadable_error(&body, &error);
                let reply = ServerJsonRpcMessage::error(unreadable, request_id.cloned());
                Ok(PostReply::Json(reply, session_id))
            }
            Err(error) => Err(StreamableHttpError::UnexpectedServerResponse(
                format!(
                    "not a JSON-RPC message: {error}: {}",
                    size::excerpt_of(&body)
                )
                .into(),
            )),
        };
    }
    if request_id.is_none() {
        return Ok(PostReply::Accepted);
    }
    Err(unexpected_type(content_type))
}

/// An event in the form in which rmcp reads it as [`decode::parse_response`] does.
fn keep_whole(event: Result<Sse, SseError>, expected: ExpectedReply) -> Result<Sse, SseError> {
    let mut event = event?;
    let Some(data) = &event.data else {
        return Ok(event);
    };
    if expected.is_offer()
        && let Ok(JsonRpcMessage::Response(response)) =
            decode::parse_response(data.as_bytes(), expected)
        && matches!(response.result, ServerResult::CustomResult(_))
        && let Ok(whole) = serde_json::to_string(&response)
    {
        event.data = Some(whole);
    } else if let Some(reply) = decode::too_deep_error(data.as_bytes())
        && let Ok(reply) = serde_json::to_string(&reply)
    {
        event.data = Some(reply);
    }
    Ok(event)
}

/// A status that is not a success. It may still carry a JSON-RPC error, which says more than the status.
async fn read_refusal(
    response: reqwest::Response,
    message: &ClientJsonRpcMessage,
    session: SessionTrust,
) -> Result<PostReply, PeerError> {
    let status = response.status();
    if is_auth(status) {
        return expect_success(response).await.map(|_| PostReply::Accepted);
    }
    if status == StatusCode::NOT_FOUND && session != SessionTrust::None {
        return Err(StreamableHttpError::SessionExpired);
    }
    let may_be_session = status == StatusCode::BAD_REQUEST && session != SessionTrust::None;

    let retry_after = header_text(&response, header::RETRY_AFTER.as_str());
    let session_id = header_text(&response, HEADER_SESSION_ID);
    let is_json = has_type(content_type(&response), JSON_MIME_TYPE);
    let excerpt = if is_json && status != StatusCode::TOO_MANY_REQUESTS {
        let body = size::read_body(response, MAX_MESSAGE_BYTES)
            .await
            .map_err(StreamableHttpError::Client)?;
        if let Ok(ServerJsonRpcMessage::Error(mut reply)) = serde_json::from_slice(&body) {
            if may_be_session && mentions_session(&reply.error.message) {
                return Err(StreamableHttpError::SessionExpired);
            }
            // A server that refuses before reading the message cannot repeat its id, yet this is the answer to it.
            if let Some(id) = request_id(message) {
                reply.id = Some(id.clone());
            }
            return Ok(PostReply::Json(JsonRpcMessage::Error(reply), session_id));
        }
        size::excerpt_of(&body)
    } else {
        size::read_excerpt(response).await
    };
    // No reply of the protocol: the server may not even have read the message. In a session where nothing was answered
    // yet, it is more likely the message itself that is refused.
    if may_be_session && (session == SessionTrust::Proven || mentions_session(&excerpt)) {
        return Err(StreamableHttpError::SessionExpired);
    }

    // The probe for the protocol era reads a refusal as "older server", for which it wants a JSON-RPC error.
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && status.is_client_error()
        && status != StatusCode::TOO_MANY_REQUESTS
    {
        let error = ErrorData::invalid_request(
            format!("server/discover was refused with HTTP {status}: {excerpt}"),
            None,
        );
        let reply = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(PostReply::Json(reply, None));
    }
    Err(StreamableHttpError::Client(HttpError::Status {
        status: status.as_u16(),
        excerpt,
        retry_after,
    }))
}

/// Whether a refusal is about the MCP session. There is no code for that, and servers word it in their own way.
fn mentions_session(text: &str) -> bool {
    text.to_lowercase().contains("session")
}

/// A reply with a success status; any other becomes the error it stands for.
pub(crate) async fn expect_success(
    response: reqwest::Response,
) -> Result<reqwest::Response, PeerError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let headers = response.headers().clone();
    let retry_after = header_text(&response, header::RETRY_AFTER.as_str());
    let excerpt = size::read_excerpt(response).await;
    if is_auth(status) {
        return Err(error::auth_error(status, &headers, excerpt));
    }
    Err(StreamableHttpError::Client(HttpError::Status {
        status: status.as_u16(),
        excerpt,
        retry_after,
    }))
}

/// The events of a reply that has to be an event stream.
pub(crate) fn expect_events(
    response: reqwest::Response,
    cap: usize,
) -> Result<impl Stream<Item = Result<Sse, SseError>> + Send + 'static, PeerError> {
    let content_type = content_type(&response);
    if !has_type(content_type, EVENT_STREAM_MIME_TYPE) {
        return Err(unexpected_type(content_type));
    }
    Ok(size::read_events(response, cap))
}

/// Reads a short body that nobody needs.
pub(crate) async fn discard_body(response: reqwest::Response) {
    size::read_excerpt(response).await;
}

fn is_auth(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

fn unexpected_type(content_type: &str) -> PeerError {
    let content_type = (!content_type.is_empty()).then(|| content_type.to_owned());
    StreamableHttpError::UnexpectedContentType(content_type)
}

/// Answers the request with an error when an event is too large. rmcp would only report that the stream ended.
fn fail_oversized(
    events: impl Stream<Item = Result<Sse, SseError>> + Send + 'static,
    request_id: Option<RequestId>,
) -> stream::BoxStream<'static, Result<Sse, SseError>> {
    let Some(request_id) = request_id else {
        return events.boxed();
    };
    stream::unfold(Some(events.boxed()), move |events| {
        let request_id = request_id.clone();
        async move {
            let mut events = events?;
            let event = events.next().await?;
            match too_large(&event) {
                Some(cap) => Some((Ok(too_large_event(cap, request_id)), None)),
                None => Some((event, Some(events))),
            }
        }
    })
    .boxed()
}

/// The limit that an event broke.
pub(crate) fn too_large(event: &Result<Sse, SseError>) -> Option<usize> {
    let Err(SseError::Body(error)) = event else {
        return None;
    };
    match error.downcast_ref() {
        Some(HttpError::TooLarge { cap }) => Some(*cap),
        _ => None,
    }
}

/// The JSON-RPC error that a request gets whose reply was too large.
pub(crate) fn too_large_error(cap: usize) -> ErrorData {
    ErrorData::new(
        ErrorCode::INTERNAL_ERROR,
        HttpError::TooLarge { cap }.to_string(),
        Some(json!({ TOO_LARGE_KEY: cap })),
    )
}

/// The limit in an error made by [`too_large_error`].
pub(super) fn exceeded_cap(error: &ErrorData) -> Option<usize> {
    let cap = error.data.as_ref()?.get(TOO_LARGE_KEY)?.as_u64()?;
    usize::try_from(cap).ok()
}

fn too_large_event(cap: usize, request_id: RequestId) -> Sse {
    let reply = ServerJsonRpcMessage::error(too_large_error(cap), Some(request_id));
    Sse::default().data(serde_json::to_string(&reply).unwrap_or_default())
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

fn header_text(response: &reqwest::Response, name: &str) -> Option<String> {
    let value = response.headers().get(name)?.to_str().ok()?;
    Some(value.to_owned())
}
