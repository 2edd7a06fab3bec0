//! Which bot account, and which chat.

use hermes_store::Origin;

pub use crate::platforms::Account;

/// The kind of a chat, as session keys spell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChatKind {
    Dm,
    Group,
    Channel,
    Thread,
    Forum,
}

impl ChatKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dm => "dm",
            Self::Group => "group",
            Self::Channel => "channel",
            Self::Thread => "thread",
            Self::Forum => "forum",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        let all = [
            Self::Dm,
            Self::Group,
            Self::Channel,
            Self::Thread,
            Self::Forum,
        ];
        all.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A chat, and the thread or topic in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChatAddress {
    /// The chat, channel or conversation. A Discord thread is a channel: its own id is here.
    pub id: String,
    pub kind: ChatKind,
    /// Telegram's topic, or the first message of a Slack thread.
    pub thread_id: Option<String>,
    /// The chat's name for people.
    pub name: Option<String>,
    /// The topic's or thread's name for people.
    pub topic: Option<String>,
    /// The guild or workspace around the chat.
    pub scope_id: Option<String>,
    /// The channel that a Discord thread belongs to.
    pub parent_id: Option<String>,
}

impl ChatAddress {
    /// A chat of which only the id is known.
    pub fn new(id: impl Into<String>, kind: ChatKind) -> Self {
        Self {
            id: id.into(),
            kind,
            thread_id: None,
            name: None,
            topic: None,
            scope_id: None,
            parent_id: None,
        }
    }

    pub fn is_direct(&self) -> bool {
        self.kind == ChatKind::Dm
    }

    /// The address of a stored conversation.
    pub fn from_origin(origin: &Origin) -> Option<Self> {
        Some(Self {
            id: origin.chat_id.clone()?,
            kind: ChatKind::from_name(&origin.chat_type).unwrap_or(ChatKind::Group),
            thread_id: origin.thread_id.clone(),
            name: origin.chat_name.clone(),
            topic: origin.chat_topic.clone(),
            scope_id: origin.scope_id.clone(),
            parent_id: origin.parent_chat_id.clone(),
        })
    }
}

/// A chat, and its last message that is known: what came after it may have been missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMark {
    pub chat: ChatAddress,
    pub after: String,
}

/// Whether a message came after another one. The ids of Discord and Slack are times with as many digits, for centuries.
pub(super) fn is_later_message(id: &str, after: &str) -> bool {
    (id.len(), id) > (after.len(), after)
}

#[cfg(test)]
mod tests {
    use hermes_config::Platform;

    use super::*;

    #[test]
    fn variables_of_a_further_account_end_with_its_name() {
        let mut account = Account::first(Platform::Slack);
        assert_eq!(account.variable("APP_TOKEN"), "SLACK_APP_TOKEN");
        account.name = "my-work".into();
        assert_eq!(account.variable("APP_TOKEN"), "SLACK_APP_TOKEN_MY_WORK");
        assert_eq!(
            account.setup_command(),
            "hermes gateway setup --platform slack --account my-work"
        );
    }
}
