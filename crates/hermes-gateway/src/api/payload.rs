//! The JSON body of a request, with a size limit.

use axum::{
    body::{Bytes, to_bytes},
    extract::{FromRequest, Request},
    http::StatusCode,
};
use serde::de::DeserializeOwned;

use super::error::ApiError;

const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;

pub(super) struct Payload(pub(super) Bytes);

impl Payload {
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.0)
            .map_err(|error| ApiError::invalid("invalid_json", format!("the body: {error}")))
    }

    /// Parses it; an empty body means defaults.
    pub(super) fn parse_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        if self.0.trim_ascii().is_empty() {
            return Ok(T::default());
        }
        self.parse()
    }
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
