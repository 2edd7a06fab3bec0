//! What an agent tells its Hub about runs that begin in a chat: the Hub counts them, and may refuse them.

use serde::{Deserialize, Serialize};

/// What a run of a chat used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatRunUse {
    /// The model that answered; absent if none did.
    pub model: Option<String>,
    pub tool_calls: u64,
    /// Cached ones included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    pub cached_tokens: u64,
}

/// Runs of chats that have begun, and whose use the Hub does not know.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenChatRuns {
    pub runs: Vec<String>,
}
