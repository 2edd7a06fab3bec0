//! When the bot answers in groups, for the whole account and for single chats and topics.

use std::collections::BTreeMap;

use regex::RegexBuilder;

use super::{
    IdList, Platform,
    keys::{AccountKeys, KeyScope},
};
use crate::fields::Fields;

/// When the bot answers in groups.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct GroupSettings {
    /// `require_mention`: only messages that address the bot are answered.
    pub require_mention: bool,
    /// `strict_mention`: a thread in which the bot has spoken does not count as addressed.
    pub strict_mention: bool,
    /// `mention_patterns`: regular expressions, in any case, that address the bot too.
    pub mention_patterns: Vec<String>,
    /// `free_response_chats`, `free_response_channels`: chats in which every message is answered.
    pub free_response_chats: IdList,
    /// `free_response_topics`: the same for topics, `chat:topic`.
    pub free_response_topics: IdList,
    /// `allowed_chats`, `allowed_channels`: the only groups in which the bot answers; empty is all.
    pub allowed_chats: IdList,
    /// `allowed_topics`: the only topics, by their id or `chat:topic`; empty is all.
    pub allowed_topics: IdList,
    /// `auto_thread`: an answer in a channel begins a thread of its own.
    pub auto_thread: bool,
    /// `observe_groups`: what is not addressed to the bot is stored as seen.
    pub observe: bool,
    /// `chats`: other rules for a chat, or for a topic as `chat:topic`.
    pub chats: BTreeMap<String, ChatRules>,
}

/// Rules of one chat or topic, where they differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChatRules {
    /// `enabled`: whether the bot answers there at all.
    pub is_enabled: Option<bool>,
    pub require_mention: Option<bool>,
    pub strict_mention: Option<bool>,
    pub mention_patterns: Option<Vec<String>>,
    pub auto_thread: Option<bool>,
    pub observe: Option<bool>,
}

impl GroupSettings {
    pub(super) fn default_of(platform: Platform) -> Self {
        Self {
            require_mention: true,
            strict_mention: false,
            mention_patterns: Vec::new(),
            free_response_chats: IdList::default(),
            free_response_topics: IdList::default(),
            allowed_chats: IdList::default(),
            allowed_topics: IdList::default(),
            auto_thread: platform == Platform::Discord,
            observe: false,
            chats: BTreeMap::new(),
        }
    }

    pub(super) fn read(keys: &AccountKeys<'_>, observe: bool) -> Self {
        let default = Self::default_of(keys.platform);
        let shared = KeyScope::Inherited;
        Self {
            require_mention: keys.flag(
                "REQUIRE_MENTION",
                &["require_mention"],
                default.require_mention,
                shared,
            ),
            strict_mention: keys.flag("STRICT_MENTION", &["strict_mention"], false, shared),
            mention_patterns: read_patterns(keys),
            free_response_chats: read_either(keys, "FREE_RESPONSE", "free_response"),
            free_response_topics: keys.ids(
                "FREE_RESPONSE_TOPICS",
                &["free_response_topics"],
                shared,
            ),
            allowed_chats: read_either(keys, "ALLOWED", "allowed"),
            allowed_topics: keys.ids("ALLOWED_TOPICS", &["allowed_topics"], shared),
            auto_thread: keys.flag("AUTO_THREAD", &["auto_thread"], default.auto_thread, shared),
            observe: keys.flag(
                "OBSERVE_GROUPS",
                &["observe_groups", "observe_unmentioned_group_messages"],
                observe,
                shared,
            ),
            chats: read_chats(keys),
        }
    }

    /// The rules of a chat and topic, the more special ones first.
    pub fn rules_of<'s>(
        &'s self,
        chat_id: &str,
        topic_id: Option<&str>,
    ) -> impl Iterator<Item = &'s ChatRules> + use<'s> {
        let topic = topic_id.and_then(|topic| self.chats.get(&format!("{chat_id}:{topic}")));
        topic.into_iter().chain(self.chats.get(chat_id))
    }
}

/// Telegram has chats, the others have channels; both words are understood everywhere.
fn read_either(keys: &AccountKeys<'_>, variable: &str, name: &str) -> IdList {
    let (chats, channels): (&'static str, &'static str) = match name {
        "free_response" => ("free_response_chats", "free_response_channels"),
        _ => ("allowed_chats", "allowed_channels"),
    };
    let of_chats = keys.ids(
        &format!("{variable}_CHATS"),
        &[chats, channels],
        KeyScope::Inherited,
    );
    if !of_chats.is_empty() && keys.platform == Platform::Telegram {
        return of_chats;
    }
    let of_channels = keys.ids(
        &format!("{variable}_CHANNELS"),
        &[channels, chats],
        KeyScope::Inherited,
    );
    if of_channels.is_empty() {
        of_chats
    } else {
        of_channels
    }
}

/// A variable has one pattern, or several as a JSON list.
fn read_patterns(keys: &AccountKeys<'_>) -> Vec<String> {
    let names = ["mention_patterns"];
    let texts = keys.texts("MENTION_PATTERNS", &names, KeyScope::Inherited);
    let texts = match texts.as_slice() {
        [one] if one.trim_start().starts_with('[') => {
            serde_json::from_str::<Vec<String>>(one).unwrap_or(texts)
        }
        _ => texts,
    };
    let mut patterns = Vec::new();
    for text in texts {
        match check_pattern(&text) {
            Ok(()) => patterns.push(text),
            Err(reason) => keys.warn("MENTION_PATTERNS", &names, reason),
        }
    }
    patterns
}

fn check_pattern(text: &str) -> Result<(), String> {
    match RegexBuilder::new(text).case_insensitive(true).build() {
        Ok(_) => Ok(()),
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default();
            Err(format!(
                "`{text}` is not a regular expression and is ignored: {}",
                reason.trim_start_matches("error: ")
            ))
        }
    }
}

fn read_chats(keys: &AccountKeys<'_>) -> BTreeMap<String, ChatRules> {
    let mut chats = BTreeMap::new();
    for section in keys.sections("chats") {
        for (id, value) in section.entries() {
            let Some(map) = value.as_object() else {
                section.warn(
                    id,
                    "must be a mapping such as `{require_mention: false}`; it is ignored",
                );
                continue;
            };
            let fields = section.mapping(id, map);
            chats
                .entry(id.clone())
                .or_insert_with(|| read_rules(&fields));
        }
    }
    chats
}

fn read_rules(fields: &Fields<'_>) -> ChatRules {
    fields.warn_unknown(&[
        "enabled",
        "require_mention",
        "strict_mention",
        "mention_patterns",
        "auto_thread",
        "observe_groups",
    ]);
    let flag = |key: &str| fields.is_set(key).then(|| fields.flag(key, true));
    let patterns = fields.texts_or_warn("mention_patterns").map(|texts| {
        let mut patterns = Vec::new();
        for text in texts {
            match check_pattern(&text) {
                Ok(()) => patterns.push(text),
                Err(reason) => fields.warn("mention_patterns", reason),
            }
        }
        patterns
    });
    ChatRules {
        is_enabled: flag("enabled"),
        require_mention: flag("require_mention"),
        strict_mention: flag("strict_mention"),
        mention_patterns: patterns,
        auto_thread: flag("auto_thread"),
        observe: flag("observe_groups"),
    }
}
