//! Why something could not be remembered or recalled.

use crate::{Code, Problem};

/// Why something could not be remembered or recalled.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It is not there.
    #[error("there is no such {what}")]
    NotFound {
        /// `tenant`, `group` and so on.
        what: &'static str,
    },
    /// The name is taken.
    #[error("the {what} `{name}` exists already; choose another name")]
    Exists {
        /// `tenant`, `group` and so on.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The state of things does not allow it.
    #[error("{message}")]
    Conflict {
        /// A stable word.
        reason: &'static str,
        /// What to do.
        message: String,
    },
    /// It changed since the caller looked.
    #[error("the {what} was changed meanwhile; read it again and repeat the change")]
    Changed {
        /// `tenant`, `group` and so on.
        what: &'static str,
    },
    /// The queue is full, or there are too many sessions.
    #[error("{message}")]
    TooMany {
        /// What to do.
        message: String,
    },
    /// More than the quota allows.
    #[error("{message}")]
    OverQuota {
        /// How much there is.
        message: String,
    },
    /// A cursor that is none of ours.
    #[error("the cursor is none that was given out for this list; begin without one")]
    BadCursor,
    /// The database is locked or unreachable: trying again may help.
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    /// The disk is full.
    #[error("the disk is full: {0}")]
    DiskFull(String),
    /// The database holds something it should not, or failed.
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
            StateError::Exists { .. } => Problem::new(Code::AlreadyExists, error.to_string()),
            StateError::Conflict { reason, message } => {
                Problem::precondition(message).because(reason)
            }
            StateError::Changed { .. } => Problem::new(Code::PreconditionFailed, error.to_string()),
            StateError::TooMany { message } => Problem::new(Code::ResourceExhausted, message)
                .because("concurrency")
                .retry_after(1000),
            StateError::OverQuota { message } => {
                Problem::new(Code::OutOfSpace, message).because("quota")
            }
            StateError::BadCursor => Problem::invalid(error.to_string()),
            StateError::Unavailable(cause) => {
                tracing::warn!("the database does not answer: {cause}");
                Problem::new(
                    Code::Unavailable,
                    "the Hub's database does not answer; try again",
                )
                .retry_after(1000)
            }
            StateError::DiskFull(cause) => {
                tracing::warn!("the disk is full: {cause}");
                Problem::new(
                    Code::OutOfSpace,
                    "the Hub's disk is full; its operator must make room",
                )
                .because("disk_full")
            }
            StateError::Broken(cause) => Problem::internal(&cause),
        }
    }
}
