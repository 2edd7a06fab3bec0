//! What a run is started with.

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
