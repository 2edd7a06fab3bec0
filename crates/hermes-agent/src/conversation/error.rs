//! Errors of conversations.

use hermes_store::{StoreError, skills::SkillError};

use crate::{model::ResolveError, turn::TurnError};

/// Why an operation on a conversation failed. Messages stored before stay valid.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// There is no model. Nothing was stored.
    #[error(transparent)]
    NoModel(#[from] ResolveError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model failed, or its reply could not be stored.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// A requested skill is not available.
    #[error(transparent)]
    Skill(#[from] SkillError),
    #[error("there is no session `{reference}`")]
    NoSuchSession {
        /// An id, a prefix of one, or a title.
        reference: String,
    },
    #[error("there is no earlier session to continue")]
    NothingToContinue,
    #[error("this is a bug in hermes: {0}")]
    Internal(String),
}
