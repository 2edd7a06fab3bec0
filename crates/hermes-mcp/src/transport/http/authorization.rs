//! Where a server refuses for want of authorization, in the replies and errors of requests.

use futures::stream::BoxStream;
use http::StatusCode;
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpError};
use sse_stream::Sse;

use super::{HttpError, PeerError, error};
use crate::oauth::AuthRefusal;

/// The reply to a request, as far as authorization is concerned.
pub(crate) trait AuthorizedReply {
    fn refusal(&self) -> Option<AuthRefusal> {
        None
    }

    /// The nonce that the server wants in the next proof of possession.
    fn nonce(&self) -> Option<String> {
        None
    }
}

impl AuthorizedReply for reqwest::Response {
    fn refusal(&self) -> Option<AuthRefusal> {
        let status = self.status();
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN).then(|| AuthRefusal {
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
impl AuthorizedReply for () {}
impl AuthorizedReply for BoxStream<'static, Result<Sse, SseError>> {}

/// The refusal that an error stands for.
pub(super) fn refusal_in(error: &PeerError) -> Option<AuthRefusal> {
    match error {
        StreamableHttpError::AuthRequired(error) => Some(AuthRefusal {
            status: 401,
            challenge: Some(error.www_authenticate_header.clone()),
        }),
        StreamableHttpError::InsufficientScope(error) => Some(AuthRefusal {
            status: 403,
            challenge: Some(error.www_authenticate_header.clone()),
        }),
        StreamableHttpError::Client(HttpError::Auth(challenge)) => Some(AuthRefusal {
            status: challenge.status,
            challenge: challenge.www_authenticate.clone(),
        }),
        _ => None,
    }
}
