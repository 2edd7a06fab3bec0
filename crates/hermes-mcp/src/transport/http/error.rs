//! What can go wrong on the wire, below the protocol, and where that is a server that refuses for want of
//! authorization.

use std::error::Error;

use futures::stream::BoxStream;
use http::{HeaderMap, StatusCode, header};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, SseError, StreamableHttpError,
};
use sse_stream::Sse;

use super::PeerError;
use crate::oauth::{AuthRefusal, OAuthError};

/// A request that did not end in an MCP reply.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The request did not get through, or the reply broke off.
    #[error("{origin}: {}", root_cause(.source))]
    Request {
        /// Scheme, host and port it was meant for.
        origin: String,
        /// What the HTTP client reports.
        source: reqwest::Error,
    },
    /// A 401 or 403 that does not say how to authorize.
    #[error("{0}")]
    Auth(#[source] AuthChallenge),
    /// There is no token to send, or the server does not take it.
    #[error("{0}")]
    OAuth(OAuthError),
    /// Any other status that is not a success.
    #[error("HTTP {status}{}", after_colon(.excerpt))]
    Status {
        status: u16,
        /// The beginning of the body.
        excerpt: String,
        /// `Retry-After` as sent.
        retry_after: Option<String>,
    },
    /// A body or event over the limit.
    #[error("the reply is larger than the {} MiB a message may have", .cap >> 20)]
    TooLarge { cap: usize },
    /// A redirect that would have turned the request into one without a body.
    #[error(
        "HTTP {status} redirects to {target}, and a POST cannot follow it; set `url` to that address"
    )]
    RedirectLosesMessage {
        /// 301, 302 or 303.
        status: u16,
        /// Where to, without the query.
        target: String,
    },
    /// A chain of redirects without an end.
    #[error("more than {limit} redirects")]
    TooManyRedirects { limit: usize },
    /// The `endpoint` event of a legacy server cannot be used.
    #[error("the server names an unusable endpoint: {reason}")]
    Endpoint { reason: String },
}

/// A refusal for want of authorization.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("HTTP {status}{}", after_colon(.excerpt))]
pub struct AuthChallenge {
    /// 401 or 403.
    pub status: u16,
    /// How to authorize, if the server says so.
    pub www_authenticate: Option<String>,
    /// The beginning of the body.
    pub excerpt: String,
}

impl From<reqwest::Error> for HttpError {
    fn from(error: reqwest::Error) -> Self {
        let origin = error
            .url()
            .map(|url| url.origin().ascii_serialization())
            .unwrap_or_default();
        // The URL may carry secrets in its query.
        Self::Request {
            origin,
            source: error.without_url(),
        }
    }
}

/// A 401 or 403, in rmcp's types where there is a challenge.
pub(super) fn auth_error(status: StatusCode, headers: &HeaderMap, excerpt: String) -> PeerError {
    match challenge(headers) {
        Some(challenge) if status == StatusCode::FORBIDDEN => {
            let scope = scope_of(&challenge);
            StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, scope))
        }
        Some(challenge) => StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)),
        None => StreamableHttpError::Client(HttpError::Auth(AuthChallenge {
            status: status.as_u16(),
            www_authenticate: None,
            excerpt,
        })),
    }
}

/// The challenge to act on: `Bearer` where several are offered.
pub(super) fn challenge(headers: &HeaderMap) -> Option<String> {
    let challenges: Vec<&str> = headers
        .get_all(header::WWW_AUTHENTICATE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    challenges
        .iter()
        .find(|challenge| {
            challenge
                .get(..6)
                .is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"))
        })
        .or(challenges.first())
        .map(|challenge| (*challenge).to_owned())
}

/// The `scope` parameter of a challenge.
fn scope_of(challenge: &str) -> Option<String> {
    let start = challenge.to_ascii_lowercase().find("scope=")? + "scope=".len();
    let value = &challenge[start..];
    let scope = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split(|c: char| c == ',' || c.is_whitespace()).next(),
    }?;
    (!scope.is_empty()).then(|| scope.to_owned())
}

/// An error of rmcp's own HTTP client, with the cause in our terms.
pub(super) fn from_rmcp(error: StreamableHttpError<reqwest::Error>) -> PeerError {
    use StreamableHttpError as E;
    match error {
        E::Client(error) => match error.status() {
            Some(status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)) => {
                auth_error(status, &HeaderMap::new(), String::new())
            }
            Some(status) => E::Client(HttpError::Status {
                status: status.as_u16(),
                excerpt: String::new(),
                retry_after: None,
            }),
            None => E::Client(error.into()),
        },
        E::HttpStatus(error) => E::Client(HttpError::Status {
            status: error.status,
            excerpt: String::new(),
            retry_after: error.retry_after,
        }),
        E::Sse(error) => E::Sse(error),
        E::Io(error) => E::Io(error),
        E::UnexpectedServerResponse(text) => E::UnexpectedServerResponse(text),
        E::UnexpectedContentType(content_type) => E::UnexpectedContentType(content_type),
        E::ServerDoesNotSupportSse => E::ServerDoesNotSupportSse,
        E::ServerDoesNotSupportDeleteSession => E::ServerDoesNotSupportDeleteSession,
        E::AuthRequired(error) => E::AuthRequired(error),
        E::InsufficientScope(error) => E::InsufficientScope(error),
        E::ReservedHeaderConflict(name) => E::ReservedHeaderConflict(name),
        E::SessionExpired => E::SessionExpired,
        other => E::UnexpectedServerResponse(other.to_string().into()),
    }
}

/// The cause at the bottom: the layers above it only say that a request failed.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() && !error.is_connect() {
        return "the server sent nothing for too long".into();
    }
    let mut cause: &(dyn Error + 'static) = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn after_colon(excerpt: &str) -> String {
    if excerpt.is_empty() {
        String::new()
    } else {
        format!(": {excerpt}")
    }
}

/// The reply to a request, as far as authorization is concerned.
pub(crate) trait AuthorizedReply {
    /// Whether it is a refusal.
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
            challenge: challenge(self.headers()),
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_bearer_challenge_is_chosen_among_several() {
        let mut headers = HeaderMap::new();
        headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
        assert_eq!(challenge(&headers).as_deref(), Some("Basic"));
        headers.append(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("bearer realm=\"x\""),
        );
        assert_eq!(challenge(&headers).as_deref(), Some("bearer realm=\"x\""));
    }

    #[test]
    fn the_scope_of_a_challenge_is_found_quoted_or_not() {
        for (challenge, scope) in [
            (r#"Bearer Scope="a b", error="x""#, Some("a b")),
            ("Bearer scope=a, error=x", Some("a")),
            ("Bearer scope=\"\"", None),
            ("Bearer", None),
        ] {
            assert_eq!(scope_of(challenge).as_deref(), scope, "{challenge}");
        }
    }
}
