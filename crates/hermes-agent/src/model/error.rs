//! Why a model gave no answer.

use std::time::Duration;

/// A failed request and its provider. No text in it contains a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{provider}`: {problem}")]
pub struct ModelError {
    pub provider: String,
    pub problem: ModelProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelProblem {
    /// No connection, or it broke before the reply started.
    #[error("no connection to {host}: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("timed out after {} s without data", after.as_secs_f32())]
    TimedOut {
        after: Duration,
        /// Whether a retry makes sense. A busy local server would only get more to do.
        again: bool,
    },
    /// The key is wrong, missing, or has no permission.
    #[error("the key was refused (HTTP {status}): {message}; check {key}")]
    KeyRefused {
        /// 401 or 403.
        status: u16,
        /// Where the key is set, or could be.
        key: String,
        message: String,
    },
    /// The model or the URL does not exist.
    #[error("HTTP 404: {message}; check the model name `{model}` and the base URL")]
    NotFound { model: String, message: String },
    #[error("too many requests (HTTP 429): {message}")]
    RateLimited {
        /// Where the provider sent it.
        retry_after: Option<Duration>,
        message: String,
    },
    /// The conversation does not fit into the model's context.
    #[error("the conversation is too long for the model: {message}")]
    ContextOverflow {
        /// The size of the context in tokens, where the provider said so.
        limit: Option<u32>,
        message: String,
    },
    /// Any other error status, also in the middle of a reply.
    #[error("HTTP {status}: {message}")]
    Refused {
        /// The HTTP status, or the equivalent of an error in the stream.
        status: u16,
        /// Where the provider sent it.
        retry_after: Option<Duration>,
        message: String,
    },
    /// The reply ended before it was complete.
    #[error("the reply was cut off: {reason}")]
    Truncated { reason: String },
    /// The reply violates the protocol.
    #[error("the reply is malformed: {reason}")]
    Malformed { reason: String },
    #[error("the request cannot be made: {reason}")]
    InvalidRequest { reason: String },
}

impl ModelError {
    /// The HTTP status, where there was one.
    pub fn status(&self) -> Option<u16> {
        match &self.problem {
            ModelProblem::KeyRefused { status, .. } | ModelProblem::Refused { status, .. } => {
                Some(*status)
            }
            ModelProblem::NotFound { .. } => Some(404),
            ModelProblem::RateLimited { .. } => Some(429),
            _ => None,
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match &self.problem {
            ModelProblem::RateLimited { retry_after, .. }
            | ModelProblem::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether a retry of the same request may succeed.
    pub fn is_transient(&self) -> bool {
        match &self.problem {
            ModelProblem::Unreachable { .. }
            | ModelProblem::RateLimited { .. }
            | ModelProblem::Truncated { .. } => true,
            ModelProblem::TimedOut { again, .. } => *again,
            ModelProblem::Refused { status, .. } => *status == 408 || *status >= 500,
            _ => false,
        }
    }

    /// Whether the conversation has to be compacted before a retry.
    pub fn is_context_overflow(&self) -> bool {
        matches!(self.problem, ModelProblem::ContextOverflow { .. })
    }
}
