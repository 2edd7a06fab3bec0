//! Why a conversation could not go on.

use hermes_store::{StoreError, skills::SkillError};

use crate::{model::ResolveError, turn::TurnError};

/// Why something in a conversation failed. What was stored before stays valid.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// There is no model to ask. Nothing was stored.
    #[error(transparent)]
    NoModel(#[from] ResolveError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model gave no answer, or it could not be stored.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// A skill that was asked for is not to be had.
    #[error(transparent)]
    Skill(#[from] SkillError),
    /// No session is meant by this.
    #[error("there is no session `{reference}`")]
    NoSuchSession {
        /// What was given: an id, the beginning of one, or a title.
        reference: String,
    },
    /// Nothing can be continued.
    #[error("there is no earlier session to continue")]
    NothingToContinue,
    /// A fault of the program.
    #[error("this is a bug in hermes: {0}")]
    Broken(String),
}
