//! Replies as HTTP responses.

use axum::{
    body::Body as HttpBody,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, StatusCode, header};

use crate::{
    operations::dispatch::DispatchedReply,
    service::call::{ReplyBody, etag_matches},
};

pub(super) fn build_response(
    dispatched: DispatchedReply,
    if_none_match: Option<&str>,
    is_head: bool,
) -> Response {
    let reply = dispatched.reply;
    let etag = reply
        .etag
        .as_deref()
        .and_then(|etag| HeaderValue::from_str(etag).ok());
    let is_known = match (if_none_match, &reply.etag) {
        (Some(known), Some(etag)) => reply.status == 200 && etag_matches(known, etag),
        _ => false,
    };
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
    let mut response = match reply.body {
        _ if is_known => StatusCode::NOT_MODIFIED.into_response(),
        ReplyBody::Empty => status.into_response(),
        ReplyBody::Json(document) => {
            let text = document.get().to_owned();
            (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        ReplyBody::Events(_) if is_head => event_stream_response(HttpBody::empty()),
        ReplyBody::Events(stream) => event_stream_response(HttpBody::from_stream(
            stream.map(Ok::<Bytes, std::convert::Infallible>),
        )),
        ReplyBody::Bytes(headers, body) => {
            let mut response = (status, body).into_response();
            response.headers_mut().extend(headers);
            response
        }
    };
    if let Some(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    if dispatched.is_replay {
        response
            .headers_mut()
            .insert("idempotent-replay", HeaderValue::from_static("true"));
    }
    response
}

fn event_stream_response(body: HttpBody) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}
