//! Errors of the state.

use crate::{Problem, ProblemCode};

/// Errors of the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("there is no such {what}")]
    NotFound {
        /// `tenant`, `group` and so on.
        what: &'static str,
    },
    #[error("the {what} `{name}` exists already; choose another name")]
    Exists {
        /// `tenant`, `group` and so on.
        what: &'static str,
        name: String,
    },
    /// The current state does not allow it.
    #[error("{message}")]
    Conflict {
        /// A stable word.
        reason: &'static str,
        message: String,
    },
    /// Changed since the caller read it.
    #[error("the {what} was changed meanwhile; read it again and repeat the change")]
    Changed {
        /// `tenant`, `group` and so on.
        what: &'static str,
    },
    /// A full queue, or too many sessions.
    #[error("{message}")]
    TooMany { message: String },
    #[error("{message}")]
    OverQuota { message: String },
    #[error("the cursor does not belong to this list; start without one")]
    BadCursor,
    /// The database is locked or unreachable: a retry may help.
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    #[error("the disk is full: {0}")]
    DiskFull(String),
    /// The database is corrupt, or a query failed.
    #[error("{0}")]
    Broken(String),
}

impl StateError {
    pub(crate) fn broken(error: impl std::fmt::Display) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<StateError> for Problem {
    fn from(error: StateError) -> Self {
        match error {
            StateError::NotFound { .. } => Problem::not_found(error.to_string()),
            StateError::Exists { .. } => {
                Problem::new(ProblemCode::AlreadyExists, error.to_string())
            }
            StateError::Conflict { reason, message } => {
                Problem::precondition(message).with_reason(reason)
            }
            StateError::Changed { .. } => {
                Problem::new(ProblemCode::PreconditionFailed, error.to_string())
            }
            StateError::TooMany { message } => {
                Problem::new(ProblemCode::ResourceExhausted, message)
                    .with_reason("concurrency")
                    .with_retry_after(1000)
            }
            StateError::OverQuota { message } => {
                Problem::new(ProblemCode::OutOfSpace, message).with_reason("quota")
            }
            StateError::BadCursor => Problem::invalid(error.to_string()),
            StateError::Unavailable(cause) => {
                tracing::warn!(%cause, "database unavailable");
                Problem::new(
                    ProblemCode::Unavailable,
                    "the Hub's database does not answer; try again",
                )
                .with_retry_after(1000)
            }
            StateError::DiskFull(cause) => {
                tracing::warn!(%cause, "disk full");
                Problem::new(
                    ProblemCode::OutOfSpace,
                    "the Hub's disk is full; its operator must make room",
                )
                .with_reason("disk_full")
            }
            StateError::Broken(cause) => Problem::internal(&cause),
        }
    }
}
