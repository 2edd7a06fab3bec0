//! Where a server refuses for want of authorization, in the replies and errors of requests.

use futures::stream::BoxStream;
use http::StatusCode;
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpError};
use sse_stream::Sse;

use super::{HttpError, PeerError, error};
use crate::oauth::Refusal;

/// The reply to a request, as far as authorization is concerned.
pub(crate) trait Answer {
    /// Whether it is a refusal.
    fn refusal(&self) -> Option<Refusal> {
        None
    }

    /// The nonce that the server wants in the next proof of possession.
    fn nonce(&self) -> Option<String> {
        None
    }
}

impl Answer for reqwest::Response {
    fn refusal(&self) -> Option<Refusal> {
        let status = self.status();
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN).then(|| Refusal {
            status: status.as_u16(),
            challenge: error::challenge(self.headers()),
        })
    }

    fn nonce(&self) -> Option<String> {
        let nonce = self.headers().get("dpop-nonce")?.to_str().ok()?;
        Some(nonce.to_owned())
    }
}

// rmcp has read these already: a refusal is an error there.
impl Answer for () {}
impl Answer for BoxStream<'static, Result<Sse, SseError>> {}

/// The refusal that an error stands for.
pub(super) fn refusal_in(error: &PeerError) -> Option<Refusal> {
    match error {
        StreamableHttpError::AuthRequired(error) => Some(Refusal {
            status: 401,
            challenge: Some(error.www_authenticate_header.clone()),
        }),
        StreamableHttpError::InsufficientScope(error) => Some(Refusal {
            status: 403,
            challenge: Some(error.www_authenticate_header.clone()),
        }),
        StreamableHttpError::Client(HttpError::Auth(challenge)) => Some(Refusal {
            status: challenge.status,
            challenge: challenge.www_authenticate.clone(),
        }),
        _ => None,
    }
}
