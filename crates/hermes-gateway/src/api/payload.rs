//! What requests carry and replies stream: JSON bodies with a size limit, query parameters, server-sent events.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{FromRequest, Request},
    http::{HeaderValue, StatusCode, Uri, header},
    response::Response,
};
use futures::Stream;
use serde::{Deserialize, de::DeserializeOwned};
use url::form_urlencoded;

use super::error::ApiError;
use crate::gateway::ControlMode;

const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;

pub(super) struct Payload(pub(super) Bytes);

impl Payload {
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.0)
            .map_err(|error| ApiError::invalid("invalid_json", format!("the body: {error}")))
    }

    /// Parses a document of the protocol between Hub and agent. A Hub's has no member that is unknown; other clients
    /// may send some, which are ignored.
    pub(super) fn parse_document<T: DeserializeOwned>(
        &self,
        control_mode: &ControlMode,
    ) -> Result<T, ApiError> {
        match control_mode {
            ControlMode::Hub { .. } => self.parse(),
            ControlMode::Own => self.parse().map(|OpenDocument { known }| known),
        }
    }

    /// Parses it; an empty body means defaults.
    pub(super) fn parse_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        if self.0.trim_ascii().is_empty() {
            return Ok(T::default());
        }
        self.parse()
    }
}

/// A document with its known members: flattening passes on no others.
#[derive(Deserialize)]
struct OpenDocument<T> {
    #[serde(flatten)]
    known: T,
}

impl<S: Sync> FromRequest<S> for Payload {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let body = to_bytes(request.into_body(), MAX_BODY_BYTES).await;
        body.map(Self).map_err(|error| {
            let is_large = std::error::Error::source(&error)
                .is_some_and(|cause| cause.to_string().contains("length limit"));
            if is_large {
                ApiError::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "invalid_request_error",
                    "body_too_large",
                    format!("the body may have {MAX_BODY_BYTES} bytes at most"),
                )
            } else {
                ApiError::invalid("invalid_body", "the body could not be read")
            }
        })
    }
}

pub(super) fn get_value(uri: &Uri, key: &str) -> Option<String> {
    let query = uri.query()?;
    form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == key)
        .map(|(_, value)| value.into_owned())
}

pub(super) fn parse_number<T: std::str::FromStr>(
    uri: &Uri,
    key: &'static str,
) -> Result<Option<T>, ApiError> {
    let Some(text) = get_value(uri, key) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(ApiError::invalid_member(
            key,
            format!("`{key}` must be a number"),
        )),
    }
}

pub(super) fn is_set(uri: &Uri, key: &str) -> bool {
    get_value(uri, key).is_some_and(|value| matches!(value.as_str(), "true" | "1" | "yes"))
}

/// How often a keepalive comment is sent.
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// A comment: ignored by clients, but it keeps proxies from closing the stream.
pub(super) const KEEPALIVE_COMMENT: &str = ": keepalive\n\n";
pub(super) const CLOSED_COMMENT: &str = ": stream closed\n\n";

pub(super) fn event_stream_response(
    stream: impl Stream<Item = String> + Send + 'static,
) -> Response {
    use futures::StreamExt as _;
    let bytes = stream.map(|text| Ok::<_, Infallible>(Bytes::from(text)));
    let mut response = Response::new(Body::from_stream(bytes));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    let fresh = HeaderValue::from_static("no-cache, no-store");
    headers.insert(header::CACHE_CONTROL, fresh);
    response
}
