//! Conversations that a home has without a messaging platform: at the terminal, over the API, of cron jobs. Their
//! sessions have no key; lists of chats show them under one made of their id.

use crate::{SessionId, SessionKey};

/// What kind of conversation without a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnPlatform {
    /// At the terminal.
    Cli,
    /// Over the local HTTP API.
    Api,
    /// Of cron jobs.
    Cron,
}

impl OwnPlatform {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cli, Self::Api, Self::Cron];

    /// Its name in lists of conversations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Api => "api",
            Self::Cron => "cron",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.as_str() == name)
    }

    /// What stands in the column `source` of its sessions.
    fn sources(self) -> &'static [&'static str] {
        match self {
            Self::Cli => &["cli", "tui"],
            Self::Api => &["api_server"],
            Self::Cron => &["cron"],
        }
    }

    /// The one that sessions with this source belong to.
    pub fn from_source(source: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|own| own.sources().contains(&source))
    }

    /// The key under which a session is listed.
    pub fn session_key(self, session: &SessionId) -> SessionKey {
        SessionKey::new(format!("{}:{session}", self.as_str()))
    }

    /// The one that a key of such a session names.
    pub fn from_session_key(key: &str) -> Option<Self> {
        Self::from_name(key.split_once(':')?.0)
    }

    /// The sources of all of these, as a JSON array.
    pub(crate) fn sources_of(platforms: &[Self]) -> String {
        let sources = platforms.iter().flat_map(|own| own.sources());
        sources.copied().collect::<serde_json::Value>().to_string()
    }
}
