//! What goes wrong, as clients see it: a stable code, a message that names the fix, and nothing internal.

use serde::Serialize;

use crate::scrub;

/// The stable codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Bad JSON, member, id, path, pattern, schedule or cursor.
    InvalidArgument,
    /// No token, or one that is unknown, expired or revoked.
    Unauthenticated,
    /// A scope is missing, the member may only read, the tenant is blocked.
    PermissionDenied,
    /// It is not there, or not visible.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// The state of things does not allow it.
    FailedPrecondition,
    /// `If-Match` names another version.
    PreconditionFailed,
    /// A body, a read or a write over its cap.
    PayloadTooLarge,
    /// Binary content where text is wanted, or another `Content-Type`.
    UnsupportedMediaType,
    /// Well formed, but not allowed.
    Unprocessable,
    /// Too many requests or runs.
    ResourceExhausted,
    /// No room: quota or disk.
    OutOfSpace,
    /// A fault of the Hub; the detail is in its log.
    Internal,
    /// The tenant's agent lacks it.
    Unimplemented,
    /// Not now: waking, draining, database down.
    Unavailable,
    /// The agent took too long.
    DeadlineExceeded,
    /// The request took too long to arrive.
    RequestTimeout,
    /// The headers are over their cap.
    HeadersTooLarge,
    /// The route knows other verbs.
    MethodNotAllowed,
}

impl Code {
    /// The HTTP status.
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

    /// The word in a problem document. Being out of space is a kind of exhausted resource.
    pub fn word(self) -> &'static str {
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

/// Which part of the input is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// A member, or a JSON pointer.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

/// An error as a client sees it. Its message never holds a secret, a path of the machine or a cause from inside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// What kind.
    pub code: Code,
    /// What happened and what to do.
    pub message: String,
    /// A finer word within the code, such as `not_empty`.
    pub reason: Option<&'static str>,
    /// Which parts of the input.
    pub details: Vec<Detail>,
    /// When to try again.
    pub retry_after_ms: Option<u64>,
}

impl Problem {
    /// A problem of that kind.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            reason: None,
            details: Vec::new(),
            retry_after_ms: None,
        }
    }

    /// Bad input.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// Absent, or not visible: the message must be the same for both.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// Not allowed.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, message)
    }

    /// The state of things does not allow it.
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, message)
    }

    /// A fault of ours. The cause goes to the log, under the request's id, not to the client.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!("{cause}");
        Self::new(Code::Internal, "the Hub failed; its log has the reason")
    }

    /// With a finer word.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }

    /// With a part of the input.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>, reason: impl Into<String>) -> Self {
        self.details.push(Detail {
            field: field.into(),
            reason: reason.into(),
        });
        self
    }

    /// With the time to try again.
    #[must_use]
    pub fn retry_after(mut self, milliseconds: u64) -> Self {
        self.retry_after_ms = Some(milliseconds);
        self
    }

    /// The document: `application/problem+json` over REST, text content over MCP.
    pub fn document(&self, request_id: &str) -> serde_json::Value {
        serde_json::json!({
            "code": self.code.word(),
            "message": scrub::keys(&self.message),
            "status": self.code.status(),
            "reason": self.reason,
            "requestId": request_id,
            "details": self.details,
            "retryAfterMs": self.retry_after_ms,
        })
    }
}
