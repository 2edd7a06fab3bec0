//! One word for why a server could not be used over HTTP, found anywhere in an error's causes.

use std::{error::Error, io};

use rmcp::{
    model::ErrorData,
    service::{ClientInitializeError, ServiceError},
    transport::streamable_http_client::{
        AuthRequiredError, InsufficientScopeError, StreamableHttpError,
    },
};

use super::{AuthChallenge, HttpError, PeerError, PreflightError, error::root_cause, reply};
use crate::{http_client::TlsError, oauth::OAuthError};

/// Why a server could not be used. The text says the cause and, where there is one, the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpFailure {
    /// 401.
    #[error(
        "the server requires authorization (HTTP 401): it needs a login, or other credentials in `headers`"
    )]
    Auth {
        /// `WWW-Authenticate`, if sent.
        challenge: Option<String>,
    },
    /// 403.
    #[error(
        "the server refuses access (HTTP 403): the credentials lack a permission, or the server does not accept this \
         host"
    )]
    Forbidden {
        /// `WWW-Authenticate`, if sent.
        challenge: Option<String>,
    },
    /// The server forgot the MCP session, and a new one could not be opened.
    #[error("the server no longer knows the MCP session, and a new one could not be opened")]
    SessionLost,
    /// Another status that is not a success.
    #[error("the server answered HTTP {0}{hint}", hint = status_hint(*.0))]
    Status(u16),
    /// A reply over the limit.
    #[error("the reply is larger than the {} MiB a message may have", .cap >> 20)]
    TooLarge { cap: usize },
    /// The encrypted connection could not be made.
    #[error("{0}")]
    Tls(String),
    /// No connection could be made.
    #[error("{0}")]
    Connect(String),
    /// The address leads to a web page.
    #[error(
        "the address looks like a web page, not an MCP endpoint: check `url`, which often ends in `/mcp`"
    )]
    WebPage,
    /// Anything else on the wire.
    #[error("{0}")]
    Other(String),
}

/// Finds out what went wrong on the wire; `None` if the error has nothing to do with HTTP.
pub fn classify(error: &(dyn Error + 'static)) -> Option<HttpFailure> {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(failure) = classify_one(current) {
            return Some(failure);
        }
        cause = next_cause(current);
    }
    None
}

/// The cause below an error. rmcp and `io::Error` keep some where `source()` does not show them.
fn next_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref() {
        Some(ClientInitializeError::TransportError { error, .. }) => return Some(error),
        Some(ClientInitializeError::LegacyFallbackFailed { fallback, .. }) => {
            return Some(fallback.as_ref());
        }
        _ => {}
    }
    if let Some(ServiceError::TransportSend(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(PeerError::Client(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(inner) = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        return Some(inner);
    }
    error.source()
}

/// What this error alone says, not looking at its causes.
fn classify_one(error: &(dyn Error + 'static)) -> Option<HttpFailure> {
    if let Some(error) = error.downcast_ref::<AuthRequiredError>() {
        let challenge = Some(error.www_authenticate_header.clone());
        return Some(HttpFailure::Auth { challenge });
    }
    if let Some(error) = error.downcast_ref::<InsufficientScopeError>() {
        let challenge = Some(error.www_authenticate_header.clone());
        return Some(HttpFailure::Forbidden { challenge });
    }
    if let Some(error) = error.downcast_ref::<AuthChallenge>() {
        let challenge = error.www_authenticate.clone();
        return Some(match error.status {
            401 => HttpFailure::Auth { challenge },
            _ => HttpFailure::Forbidden { challenge },
        });
    }
    if error.is::<PreflightError>() {
        return Some(HttpFailure::WebPage);
    }
    if let Some(error) = error.downcast_ref::<TlsError>() {
        return Some(HttpFailure::Tls(error.to_string()));
    }
    if let Some(error) = error.downcast_ref::<HttpError>() {
        return classify_http(error);
    }
    if let Some(error) = error.downcast_ref::<PeerError>() {
        return classify_peer(error);
    }
    json_rpc_error(error)
        .and_then(reply::exceeded_cap)
        .map(|cap| HttpFailure::TooLarge { cap })
}

fn classify_http(error: &HttpError) -> Option<HttpFailure> {
    Some(match error {
        HttpError::Request { origin, source } => classify_request(origin, source),
        HttpError::Status { status, .. } => HttpFailure::Status(*status),
        HttpError::TooLarge { cap } => HttpFailure::TooLarge { cap: *cap },
        HttpError::OAuth(error @ OAuthError::ScopeMissing { .. }) => HttpFailure::Forbidden {
            challenge: Some(error.to_string()),
        },
        HttpError::OAuth(error) if error.needs_login() => HttpFailure::Auth {
            challenge: Some(error.to_string()),
        },
        // Its cause is the challenge.
        HttpError::Auth(_) => return None,
        other => HttpFailure::Other(other.to_string()),
    })
}

fn classify_peer(error: &PeerError) -> Option<HttpFailure> {
    Some(match error {
        StreamableHttpError::SessionExpired
        | StreamableHttpError::SessionRecoveryTimeout
        | StreamableHttpError::ReinitializationFailed(_) => HttpFailure::SessionLost,
        StreamableHttpError::UnexpectedContentType(Some(content_type))
            if super::has_type(content_type, "text/html") =>
        {
            HttpFailure::WebPage
        }
        // The first four have a cause that says more; a closed transport is not a fault of HTTP.
        StreamableHttpError::Client(_)
        | StreamableHttpError::Sse(_)
        | StreamableHttpError::AuthRequired(_)
        | StreamableHttpError::InsufficientScope(_)
        | StreamableHttpError::TransportChannelClosed => return None,
        other => HttpFailure::Other(other.to_string()),
    })
}

fn classify_request(origin: &str, error: &reqwest::Error) -> HttpFailure {
    if let Some(tls) = tls_cause(error) {
        return HttpFailure::Tls(format!("{origin}: {}", tls_advice(tls)));
    }
    let cause = root_cause(error);
    if error.is_connect() && error.is_timeout() {
        HttpFailure::Connect(format!(
            "{origin} did not answer in time: is the address right, and does it need a proxy?"
        ))
    } else if error.is_connect() {
        HttpFailure::Connect(format!(
            "no connection to {origin}: {cause}; is the server running there?"
        ))
    } else {
        HttpFailure::Other(format!("{origin}: {cause}"))
    }
}

fn tls_cause(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(tls) = current.downcast_ref() {
            return Some(tls);
        }
        cause = next_cause(current);
    }
    None
}

fn tls_advice(error: &rustls::Error) -> String {
    use rustls::{AlertDescription, CertificateError, Error as Tls};
    let fix = match error {
        Tls::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "; set `ssl_verify` to the path of the CA certificate that signed it"
        }
        Tls::InvalidCertificate(_) => {
            "; check the server's certificate, or point `ssl_verify` to its CA"
        }
        Tls::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::HandshakeFailure,
        ) => "; the server may want a client certificate: see `client_cert`",
        Tls::InvalidMessage(_) => "; the server may speak plain HTTP: try `http://` in `url`",
        _ => "",
    };
    format!("{error}{fix}")
}

/// The JSON-RPC error inside rmcp's error types.
fn json_rpc_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a ErrorData> {
    if let Some(ServiceError::McpError(error)) = error.downcast_ref() {
        return Some(error);
    }
    match error.downcast_ref() {
        Some(ClientInitializeError::JsonRpcError(error)) => Some(error),
        _ => None,
    }
}

fn status_hint(status: u16) -> &'static str {
    match status {
        404 => ": there is nothing at this address; check `url`",
        405 => ": this address takes no MCP messages; check `url`",
        429 => ": too many requests; try again later",
        500.. => ": the server failed",
        _ => "",
    }
}
