//! Errors as clients see them: a stable code, a message that names the fix, and nothing internal.

use hermes_config::nearest;
use serde::{Deserialize, Serialize};

use crate::api_types::redact_keys;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// Invalid JSON, member, id, path, pattern, schedule or cursor.
    InvalidArgument,
    /// No token, or one that is unknown, expired or revoked.
    Unauthenticated,
    /// A missing scope, a read-only member, a blocked tenant.
    PermissionDenied,
    /// Missing, or not visible.
    NotFound,
    AlreadyExists,
    /// The current state does not allow it.
    FailedPrecondition,
    PreconditionFailed,
    /// A body, read or write over its limit.
    PayloadTooLarge,
    /// Binary content instead of text, or an unsupported `Content-Type`.
    UnsupportedMediaType,
    /// Well formed, but not allowed.
    Unprocessable,
    ResourceExhausted,
    /// Quota exceeded or disk full.
    OutOfSpace,
    /// An error of the Hub; the details are in its log.
    Internal,
    /// The tenant's agent does not support it.
    Unimplemented,
    /// Temporarily unavailable: starting, draining, database down.
    Unavailable,
    DeadlineExceeded,
    RequestTimeout,
    HeadersTooLarge,
    MethodNotAllowed,
}

impl ProblemCode {
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidArgument => 400,
            Self::Unauthenticated => 401,
            Self::PermissionDenied => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::AlreadyExists | Self::FailedPrecondition => 409,
            Self::PreconditionFailed => 412,
            Self::PayloadTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Unprocessable => 422,
            Self::ResourceExhausted => 429,
            Self::HeadersTooLarge => 431,
            Self::Internal => 500,
            Self::Unimplemented => 501,
            Self::Unavailable => 503,
            Self::DeadlineExceeded => 504,
            Self::OutOfSpace => 507,
        }
    }

    /// The code in a problem document. `OutOfSpace` is reported as `resource_exhausted`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument | Self::MethodNotAllowed => "invalid_argument",
            Self::Unauthenticated => "unauthenticated",
            Self::PermissionDenied => "permission_denied",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::FailedPrecondition => "failed_precondition",
            Self::PreconditionFailed => "precondition_failed",
            Self::PayloadTooLarge | Self::HeadersTooLarge => "payload_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::Unprocessable => "unprocessable",
            Self::ResourceExhausted | Self::OutOfSpace => "resource_exhausted",
            Self::Internal => "internal",
            Self::Unimplemented => "unimplemented",
            Self::Unavailable => "unavailable",
            Self::DeadlineExceeded | Self::RequestTimeout => "deadline_exceeded",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemDetail {
    pub field: String,
    pub reason: String,
}

/// An error for a client. Its message never contains a secret, a local path or an internal cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    pub code: ProblemCode,
    /// The cause and the fix.
    pub message: String,
    /// A more specific code, such as `not_empty`.
    pub reason: Option<&'static str>,
    pub details: Vec<ProblemDetail>,
    pub retry_after_ms: Option<u64>,
}

/// A problem as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProblemDocument {
    /// [`ProblemCode::as_str`].
    pub code: String,
    pub message: String,
    pub status: u16,
    pub reason: Option<String>,
    pub request_id: String,
    pub details: Vec<ProblemDetail>,
    pub retry_after_ms: Option<u64>,
}

impl Problem {
    pub fn new(code: ProblemCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            reason: None,
            details: Vec::new(),
            retry_after_ms: None,
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ProblemCode::InvalidArgument, message)
    }

    /// Missing, or not visible: the message must be the same for both.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ProblemCode::NotFound, message)
    }

    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ProblemCode::PermissionDenied, message)
    }

    /// The current state does not allow it.
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(ProblemCode::FailedPrecondition, message)
    }

    /// An internal error. The cause is logged with the request id and not sent to the client.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(
            ProblemCode::Internal,
            "the Hub failed; its log has the reason",
        )
    }

    #[must_use]
    pub fn with_reason(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }

    #[must_use]
    pub fn with_detail(mut self, field: impl Into<String>, reason: impl Into<String>) -> Self {
        self.details.push(ProblemDetail {
            field: field.into(),
            reason: reason.into(),
        });
        self
    }

    #[must_use]
    pub fn with_retry_after(mut self, milliseconds: u64) -> Self {
        self.retry_after_ms = Some(milliseconds);
        self
    }

    /// The problem document: `application/problem+json` over REST, text content over MCP.
    pub fn to_document(&self, request_id: &str) -> ProblemDocument {
        ProblemDocument {
            code: self.code.as_str().to_owned(),
            message: redact_keys(&self.message).into_owned(),
            status: self.code.status(),
            reason: self.reason.map(str::to_owned),
            request_id: request_id.to_owned(),
            details: self.details.clone(),
            retry_after_ms: self.retry_after_ms,
        }
    }
}

impl ProblemDocument {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The problem of an input with a member that is not known; suggests the nearest name.
pub(crate) fn unknown_member(name: &str, known: &[String]) -> Problem {
    let short: String = name.chars().take(80).collect();
    let advice = match nearest(&short, known.iter().cloned()) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None if known.is_empty() => "; none is taken here".to_owned(),
        None => format!(
            "; known are {}",
            known
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    Problem::invalid(format!("unknown member `{short}`{advice}")).with_detail(short, "unknown")
}

/// Removes values that the caller sent from an error message of serde: they may be secrets.
pub(crate) fn strip_values(message: &str) -> String {
    for (start, end, instead) in [
        ("string \"", "\", expected", "a string"),
        ("unknown variant `", "`, expected", "unknown value"),
    ] {
        if let Some(at) = message.find(start) {
            let rest = &message[at + start.len()..];
            let expectation = rest.rfind(end).map_or("", |end| &rest[end + 1..]);
            return format!("{}{instead}{expectation}", &message[..at]);
        }
    }
    message.to_owned()
}
