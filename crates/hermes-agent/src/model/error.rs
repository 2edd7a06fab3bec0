//! Why a model gave no answer.

use std::time::Duration;

/// A request that failed, and at whom. No text in it holds a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{provider}`: {problem}")]
pub struct ModelError {
    /// The provider that was asked.
    pub provider: String,
    /// What went wrong.
    pub problem: Problem,
}

/// What went wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// No connection, or it broke before the reply began.
    #[error("no connection to {host}: {reason}")]
    Unreachable {
        /// Host and port.
        host: String,
        /// Why not.
        reason: String,
    },
    /// Nothing came for too long.
    #[error("no answer for {} s", after.as_secs_f32())]
    Silent {
        /// How long was waited.
        after: Duration,
        /// Whether another attempt makes sense. A local server that is busy would only get more to do.
        again: bool,
    },
    /// The key is wrong, missing, or may not do this.
    #[error("the key was refused (HTTP {status}): {message}; check {key}")]
    KeyRefused {
        /// 401 or 403.
        status: u16,
        /// Where the key is set, or could be.
        key: String,
        /// What the provider said.
        message: String,
    },
    /// The model, or the whole address, is not there.
    #[error("HTTP 404: {message}; check the model name `{model}` and the base URL")]
    NotFound {
        /// The model that was asked for.
        model: String,
        /// What the provider said.
        message: String,
    },
    /// Too many requests.
    #[error("too many requests (HTTP 429): {message}")]
    RateLimited {
        /// How long to wait, where the provider said so.
        retry_after: Option<Duration>,
        /// What the provider said.
        message: String,
    },
    /// The conversation does not fit into the model's context.
    #[error("the conversation is too long for the model: {message}")]
    ContextOverflow {
        /// The size of the context in tokens, where the provider said so.
        limit: Option<u32>,
        /// What the provider said.
        message: String,
    },
    /// Any other refusal, also one in the middle of a reply.
    #[error("HTTP {status}: {message}")]
    Refused {
        /// The HTTP status, or the one that says the same.
        status: u16,
        /// How long to wait, where the provider said so.
        retry_after: Option<Duration>,
        /// What the provider said.
        message: String,
    },
    /// The reply ended before it was complete.
    #[error("the reply broke off: {reason}")]
    Cut {
        /// How.
        reason: String,
    },
    /// The reply is not what this protocol says.
    #[error("the reply makes no sense: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// The request could not be made.
    #[error("the request can not be made: {reason}")]
    Unsendable {
        /// Why not.
        reason: String,
    },
}

impl ModelError {
    /// The HTTP status, where there was one.
    pub fn status(&self) -> Option<u16> {
        match &self.problem {
            Problem::KeyRefused { status, .. } | Problem::Refused { status, .. } => Some(*status),
            Problem::NotFound { .. } => Some(404),
            Problem::RateLimited { .. } => Some(429),
            _ => None,
        }
    }

    /// How long the provider wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match &self.problem {
            Problem::RateLimited { retry_after, .. } | Problem::Refused { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }

    /// Whether the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match &self.problem {
            Problem::Unreachable { .. } | Problem::RateLimited { .. } | Problem::Cut { .. } => true,
            Problem::Silent { again, .. } => *again,
            Problem::Refused { status, .. } => *status == 408 || *status >= 500,
            _ => false,
        }
    }

    /// Whether the conversation has to become shorter before it is sent again.
    pub fn is_context_overflow(&self) -> bool {
        matches!(self.problem, Problem::ContextOverflow { .. })
    }
}
