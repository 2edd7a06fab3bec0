//! What is asked of an agent: the input of a run, and decisions about its approvals.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The input of a run that somebody asks for. A run of a cron job has none: the job says what to do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptInput {
    /// A text, or messages ending with the user's turn.
    pub input: Value,
    /// Added to the system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Earlier messages; only used if the session is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_history: Option<Value>,
    /// The session, which may be new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// An earlier run, whose session is continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_response_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// What somebody chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum ApprovalChoice {
    Once,
    Session,
    Always,
    Deny,
}

/// A word that is not a choice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a choice; choices are `once`, `session`, `always` and `deny`")]
pub struct UnknownChoice(String);

impl ApprovalChoice {
    pub const ALL: [Self; 4] = [Self::Once, Self::Session, Self::Always, Self::Deny];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Always => "always",
            Self::Deny => "deny",
        }
    }

    /// Reads a choice; `approve`, `approved` and `allow` mean `once`.
    pub fn parse(word: &str) -> Result<Self, UnknownChoice> {
        match word.trim().to_lowercase().as_str() {
            "once" | "approve" | "approved" | "allow" => Ok(Self::Once),
            "session" => Ok(Self::Session),
            "always" => Ok(Self::Always),
            "deny" => Ok(Self::Deny),
            _ => Err(UnknownChoice(word.to_owned())),
        }
    }
}

impl TryFrom<String> for ApprovalChoice {
    type Error = UnknownChoice;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        Self::parse(&word)
    }
}

/// A decision about pending approvals of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalDecision {
    pub choice: ApprovalChoice,
    /// Which approval; the oldest if there is none.
    #[serde(default)]
    pub approval_id: Option<String>,
    /// All pending approvals.
    #[serde(default)]
    pub all: bool,
    /// For the agent.
    #[serde(default)]
    pub reason: Option<String>,
}
