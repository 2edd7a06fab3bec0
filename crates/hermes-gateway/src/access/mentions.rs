//! Whether a message in a group is meant for the bot, by the rules of its chat and topic.

use std::collections::BTreeMap;

use hermes_config::{BotPolicy, GroupSettings, Platform, PlatformSettings};
use regex::{Regex, RegexBuilder};

use crate::platform::{ChatAddress, ChatKind, InboundEvent, InboundKind, InboundMessage};

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// It is answered.
    Addressed(AddressedBy),
    /// It is stored as seen and not answered.
    Observed,
    Ignored,
}

impl Addressing {
    pub fn is_addressed(self) -> bool {
        matches!(self, Self::Addressed(_))
    }
}

/// Why a message is meant for the bot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressedBy {
    DirectChat,
    /// A button, or a command of the platform's own or of this bot.
    Command,
    Mention,
    Reply,
    Pattern,
    FreeResponse,
    /// The bot has spoken in this thread before.
    Thread,
    /// Another part of its album is.
    Album,
}

/// What the text alone does not tell.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupContext {
    /// Whether the bot has posted in this thread (Discord, Slack) before.
    pub has_spoken_in_thread: bool,
    /// Whether the text is a slash command of this bot.
    pub is_own_command: bool,
}

/// The rules of one account, with their patterns ready to use.
#[derive(Debug)]
pub struct MentionRules {
    platform: Platform,
    bots: BotPolicy,
    groups: GroupSettings,
    patterns: Vec<Regex>,
    patterns_of_chats: BTreeMap<String, Vec<Regex>>,
}

/// Telegram's first topic, which messages do not name.
const GENERAL_TOPIC: &str = "1";

impl MentionRules {
    pub fn new(platform: Platform, settings: &PlatformSettings) -> Self {
        let groups = settings.groups.clone();
        let of_chats = groups.chats.iter().filter_map(|(chat, rules)| {
            let patterns = rules.mention_patterns.as_ref()?;
            Some((chat.clone(), compile(patterns)))
        });
        Self {
            platform,
            bots: settings.access.bots,
            patterns: compile(&groups.mention_patterns),
            patterns_of_chats: of_chats.collect(),
            groups,
        }
    }

    /// Decides about an event of somebody who may use the bot.
    pub fn judge(&self, event: &InboundEvent, context: GroupContext) -> Addressing {
        let chat = &event.chat;
        let is_bot = event.sender.as_ref().is_some_and(|sender| sender.is_bot);
        let InboundKind::Message(message) = &event.kind else {
            // Meant for the bot by their nature, and still nothing where the bot does not answer.
            return if chat.is_direct() || self.is_allowed_place(chat) {
                Addressing::Addressed(AddressedBy::Command)
            } else {
                Addressing::Ignored
            };
        };
        // Two bots that answer each other would never stop.
        let is_refused_bot = is_bot
            && match self.bots {
                BotPolicy::None => true,
                BotPolicy::Mentions => !message.mentions_bot,
                BotPolicy::All => false,
            };
        if is_refused_bot {
            return Addressing::Ignored;
        }
        if chat.is_direct() {
            return Addressing::Addressed(AddressedBy::DirectChat);
        }
        if !self.is_allowed_place(chat) {
            return Addressing::Ignored;
        }
        match self.find_address(chat, message, is_bot, context) {
            Some(by) => Addressing::Addressed(by),
            None if self.observes(chat) => Addressing::Observed,
            None => Addressing::Ignored,
        }
    }

    fn find_address(
        &self,
        chat: &ChatAddress,
        message: &InboundMessage,
        is_bot: bool,
        context: GroupContext,
    ) -> Option<AddressedBy> {
        if message.mentions_bot {
            return Some(AddressedBy::Mention);
        }
        if context.is_own_command {
            return Some(AddressedBy::Command);
        }
        // A reply of a bot is what it answers with: it does not mean this bot.
        let quotes_bot = message
            .quoted
            .as_ref()
            .is_some_and(|quoted| quoted.is_from_bot);
        if quotes_bot && !is_bot {
            return Some(AddressedBy::Reply);
        }
        let mut patterns = self.patterns(chat).iter();
        if patterns.any(|pattern| pattern.is_match(&message.text)) {
            return Some(AddressedBy::Pattern);
        }
        if !self.requires_mention(chat) {
            return Some(AddressedBy::FreeResponse);
        }
        let is_thread = match self.platform {
            // A topic is a place of its own, not an exchange with the bot.
            Platform::Telegram => false,
            Platform::Discord => chat.kind == ChatKind::Thread,
            Platform::Slack => chat.thread_id.is_some(),
        };
        (is_thread && context.has_spoken_in_thread && !is_bot && !self.is_strict(chat))
            .then_some(AddressedBy::Thread)
    }

    /// Whether the bot answers in this chat and topic at all.
    fn is_allowed_place(&self, chat: &ChatAddress) -> bool {
        if let Some(is_enabled) = self.rule(chat, |rules| rules.is_enabled) {
            return is_enabled;
        }
        let groups = &self.groups;
        let is_chat_allowed = groups.allowed_chats.is_empty()
            || chat_ids(chat).any(|id| groups.allowed_chats.includes(id));
        let is_topic_allowed = groups.allowed_topics.is_empty()
            || self.topic(chat).is_none_or(|topic| {
                groups.allowed_topics.includes(topic)
                    || chat_ids(chat)
                        .any(|id| groups.allowed_topics.includes(&format!("{id}:{topic}")))
            });
        is_chat_allowed && is_topic_allowed
    }

    fn requires_mention(&self, chat: &ChatAddress) -> bool {
        if let Some(is_required) = self.rule(chat, |rules| rules.require_mention) {
            return is_required;
        }
        let groups = &self.groups;
        let is_free_chat = chat_ids(chat).any(|id| groups.free_response_chats.includes(id));
        let is_free_topic = self.topic(chat).is_some_and(|topic| {
            chat_ids(chat).any(|id| {
                let topics = &groups.free_response_topics;
                topics
                    .iter()
                    .any(|listed| listed == format!("{id}:{topic}"))
            })
        });
        groups.require_mention && !is_free_chat && !is_free_topic
    }

    fn is_strict(&self, chat: &ChatAddress) -> bool {
        self.rule(chat, |rules| rules.strict_mention)
            .unwrap_or(self.groups.strict_mention)
    }

    /// Whether what is not addressed to the bot is stored as seen.
    pub fn observes(&self, chat: &ChatAddress) -> bool {
        self.rule(chat, |rules| rules.observe)
            .unwrap_or(self.groups.observe)
    }

    /// Whether an answer in this channel begins a thread.
    pub fn opens_thread(&self, chat: &ChatAddress) -> bool {
        self.rule(chat, |rules| rules.auto_thread)
            .unwrap_or(self.groups.auto_thread)
    }

    fn patterns(&self, chat: &ChatAddress) -> &[Regex] {
        let mut keys = self.rule_keys(chat).into_iter();
        keys.find_map(|key| self.patterns_of_chats.get(&key))
            .map_or(self.patterns.as_slice(), Vec::as_slice)
    }

    /// What the rules of the topic say, else those of the chat, else those of the channel around a thread.
    fn rule<T>(
        &self,
        chat: &ChatAddress,
        read: impl Fn(&hermes_config::ChatRules) -> Option<T>,
    ) -> Option<T> {
        if self.groups.chats.is_empty() {
            return None;
        }
        let mut keys = self.rule_keys(chat).into_iter();
        keys.find_map(|key| read(self.groups.chats.get(&key)?))
    }

    fn rule_keys(&self, chat: &ChatAddress) -> Vec<String> {
        let topic = self.topic(chat);
        let of_topic = topic.map(|topic| format!("{}:{topic}", chat.id));
        of_topic
            .into_iter()
            .chain(chat_ids(chat).map(str::to_owned))
            .collect()
    }

    fn topic<'c>(&self, chat: &'c ChatAddress) -> Option<&'c str> {
        match (self.platform, chat.kind) {
            (Platform::Telegram, ChatKind::Forum) => {
                Some(chat.thread_id.as_deref().unwrap_or(GENERAL_TOPIC))
            }
            _ => chat.thread_id.as_deref(),
        }
    }
}

/// The chat, and the channel around it.
fn chat_ids(chat: &ChatAddress) -> impl Iterator<Item = &str> {
    std::iter::once(chat.id.as_str()).chain(chat.parent_id.as_deref())
}

/// The settings have only patterns that can be compiled.
fn compile(patterns: &[String]) -> Vec<Regex> {
    patterns
        .iter()
        .filter_map(|pattern| {
            RegexBuilder::new(pattern)
                .case_insensitive(true)
                .build()
                .ok()
        })
        .collect()
}

#[cfg(test)]
mod tests;
