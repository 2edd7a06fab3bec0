//! Messaging platforms of tenants.

use super::vocabulary;

vocabulary! {
    /// A messaging platform.
    PlatformName {
        /// Telegram, by a bot.
        Telegram = "telegram",
        /// Discord, by a bot.
        Discord = "discord",
        /// Slack, by an app.
        Slack = "slack",
    }
}

vocabulary! {
    /// What a stranger who writes a direct message gets.
    StrangerReply {
        /// A pairing code, unless there is an allow-list.
        Pair = "pair",
        /// Nothing.
        Ignore = "ignore",
    }
}
