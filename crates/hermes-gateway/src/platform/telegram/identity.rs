//! Who the bot is, and what its server is known to support.

use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::Value;

/// The bot, as far as messages name it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BotIdentity {
    pub(super) id: Option<i64>,
    /// Without `@`, in lower case.
    pub(super) username: Option<String>,
    /// Whether it gets every message of its groups: privacy mode is off.
    pub(super) reads_all: Option<bool>,
}

impl BotIdentity {
    /// What `getMe` returned.
    pub(super) fn from_account(account: &Value) -> Self {
        Self {
            id: account["id"].as_i64(),
            username: account["username"].as_str().map(str::to_lowercase),
            reads_all: account["can_read_all_group_messages"].as_bool(),
        }
    }

    pub(super) fn is_account(&self, user: &Value) -> bool {
        self.id.is_some() && user["id"].as_i64() == self.id
    }

    /// Whether a name is the bot's, with or without `@`.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let name = name.strip_prefix('@').unwrap_or(name).to_lowercase();
        self.username.as_deref() == Some(name.as_str())
    }
}

/// Something that older servers do not know. Found out once, by using it.
#[derive(Debug, Default)]
pub(super) struct ServerFeature(AtomicU8);

const UNKNOWN: u8 = 0;
const SUPPORTED: u8 = 1;
const MISSING: u8 = 2;

impl ServerFeature {
    pub(super) fn is_missing(&self) -> bool {
        self.0.load(Ordering::Relaxed) == MISSING
    }

    pub(super) fn is_supported(&self) -> bool {
        self.0.load(Ordering::Relaxed) == SUPPORTED
    }

    pub(super) fn record_supported(&self) {
        self.0.store(SUPPORTED, Ordering::Relaxed);
    }

    pub(super) fn record_missing(&self, method: &'static str) {
        if self.0.swap(MISSING, Ordering::Relaxed) != MISSING {
            tracing::info!(method, "Telegram server does not support a method");
        }
    }

    /// As it was at the start: the server may have been replaced.
    pub(super) fn forget(&self) {
        self.0.store(UNKNOWN, Ordering::Relaxed);
    }
}
