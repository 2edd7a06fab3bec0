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

/// Why a Hub refuses a run, as the `reason` of its problem. The message is for the people in the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatRunRefusal {
    /// A limit of the day is reached.
    DailyLimit,
    TenantBlocked,
}

impl ChatRunRefusal {
    const ALL: [Self; 2] = [Self::DailyLimit, Self::TenantBlocked];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::DailyLimit => "daily_limit",
            Self::TenantBlocked => "tenant_blocked",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == word)
    }
}

/// Runs of chats that have begun, and whose use the Hub does not know.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenChatRuns {
    pub runs: Vec<String>,
}
