//! Resolves a target: `platform`, or `platform:chat`, where the chat is an id or a name of the channel directory; and
//! lists the known chats. A further bot of a platform is `platform@account`.

use std::collections::HashSet;

use hermes_config::{GatewaySettings, Home, Platform};
use hermes_store::{
    StoreError,
    mirror::{Channel, ChannelDirectory},
};
use serde::Serialize;

use super::error::SendError;
use crate::{conversations::ConversationIndex, platforms::Account};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) platform: Platform,
    /// The bot account; empty for the first one.
    pub(super) account: String,
    pub(super) chat: ChatTarget,
    /// Whether it is the configured home channel.
    pub(super) is_home: bool,
}

impl Destination {
    /// `telegram`, `telegram@work`: the platform of its conversations.
    pub(super) fn label(&self) -> String {
        match self.account.as_str() {
            "" => self.platform.name().to_owned(),
            account => format!("{}@{account}", self.platform.name()),
        }
    }
}

/// A chat, and a thread or topic in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChatTarget {
    pub(super) id: String,
    pub(super) thread: Option<String>,
}

impl ChatTarget {
    fn new(id: &str, thread: Option<&str>) -> Self {
        Self {
            id: id.to_owned(),
            thread: thread.map(str::to_owned),
        }
    }
}

pub(super) fn resolve_target(
    home: &Home,
    settings: &GatewaySettings,
    target: &str,
) -> Result<Destination, SendError> {
    let (platform, reference) = match target.split_once(':') {
        Some((platform, reference)) => (platform, reference.trim()),
        None => (target, ""),
    };
    let label = platform.trim().to_lowercase();
    let (name, account) = match label.split_once('@') {
        Some((name, account)) => (name.to_owned(), account.to_owned()),
        None => (label.clone(), String::new()),
    };
    let named = match reference {
        "" => None,
        reference => Some(resolve_name(home, &name, &label, reference)?),
    };
    if !crate::platforms::is_platform(&name) {
        return Err(SendError::UnknownPlatform { platform: name });
    }
    let usable = Platform::from_name(&name).and_then(|platform| {
        let settings = settings.account(platform, &account)?;
        settings.token.is_some().then_some((platform, settings))
    });
    let Some((platform, settings)) = usable else {
        return Err(SendError::NotConfigured { platform: label });
    };
    if let Some(chat) = named {
        return Ok(Destination {
            platform,
            account,
            chat,
            is_home: false,
        });
    }
    let set = settings.home_channel.as_ref();
    let set = set.ok_or_else(|| SendError::NoHomeChannel {
        account: Account {
            platform,
            name: account.clone(),
        },
    })?;
    let mut chat = parse_chat_id(platform.name(), &set.chat_id)
        .unwrap_or_else(|| ChatTarget::new(&set.chat_id, None));
    if set.thread_id.is_some() {
        chat.thread.clone_from(&set.thread_id);
    }
    Ok(Destination {
        platform,
        account,
        chat,
        is_home: true,
    })
}

fn resolve_name(
    home: &Home,
    platform: &str,
    label: &str,
    reference: &str,
) -> Result<ChatTarget, SendError> {
    if let Some(chat) = parse_chat_id(platform, reference) {
        return Ok(chat);
    }
    let unresolved = || SendError::Unresolved {
        platform: label.to_owned(),
        reference: reference.to_owned(),
    };
    let directory = ChannelDirectory::load_for_lookup(home).unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to read the channel directory");
        ChannelDirectory::default()
    });
    let channel =
        find_channel(platform, directory.platform(label), reference).ok_or_else(unresolved)?;
    let id = channel.id.as_deref().ok_or_else(unresolved)?;
    let mut chat = parse_chat_id(platform, id).unwrap_or_else(|| ChatTarget::new(id, None));
    if chat.thread.is_none() {
        chat.thread.clone_from(&channel.thread_id);
    }
    Ok(chat)
}

fn parse_chat_id(platform: &str, reference: &str) -> Option<ChatTarget> {
    let (id, thread) = match reference.split_once(':') {
        Some((id, thread)) => (id, Some(thread)),
        None => (reference, None),
    };
    let is_valid = match platform {
        "telegram" => is_telegram_id(id) && thread.is_none_or(is_number) || is_handle(reference),
        "discord" => is_number(id) && thread.is_none_or(is_number),
        "slack" => match thread {
            None => is_slack_id(id, "CGDUW"),
            Some(thread) => is_slack_id(id, "CGD") && is_thread(thread),
        },
        // A number is an id on every platform, so that an unsupported platform is reported as such.
        _ => is_telegram_id(reference),
    };
    is_valid.then(|| ChatTarget::new(id, thread))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_telegram_id(text: &str) -> bool {
    is_number(text.strip_prefix('-').unwrap_or(text))
}

fn is_handle(text: &str) -> bool {
    let Some(name) = text.strip_prefix('@') else {
        return false;
    };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (4..=32).contains(&name.len()) && name.bytes().all(is_letter)
}

fn is_slack_id(text: &str, kinds: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|kind| kinds.contains(kind))
        && letters.as_str().len() >= 8
        && letters.all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
}

/// The timestamp of a Slack message, which identifies its thread.
fn is_thread(text: &str) -> bool {
    text.split_once('.')
        .is_some_and(|(seconds, rest)| is_number(seconds) && is_number(rest))
}

/// Finds a channel: by id, by name or label, by server and name, or by a unique prefix.
fn find_channel<'c>(
    platform: &str,
    channels: &'c [Channel],
    reference: &str,
) -> Option<&'c Channel> {
    if let Some(found) = channels
        .iter()
        .find(|channel| channel.id.as_deref() == Some(reference))
    {
        return Some(found);
    }
    let wanted = normalize_name(reference);
    let is_named = |channel: &&Channel| {
        normalize_name(&channel.name) == wanted
            || normalize_name(&channel_label(platform, channel)) == wanted
    };
    if let Some(found) = channels.iter().find(is_named) {
        return Some(found);
    }
    if let Some((guild, name)) = wanted.rsplit_once('/') {
        let is_there = |channel: &&Channel| {
            let theirs = channel.guild.as_deref().unwrap_or_default();
            theirs.trim().to_lowercase() == guild
                && normalize_name(&channel.name) == normalize_name(name)
        };
        if let Some(found) = channels.iter().find(is_there) {
            return Some(found);
        }
    }
    let mut beginnings = channels
        .iter()
        .filter(|channel| normalize_name(&channel.name).starts_with(&wanted));
    beginnings
        .next()
        .filter(|_| beginnings.next().is_none() && !wanted.is_empty())
}

fn normalize_name(name: &str) -> String {
    let name = name.trim();
    name.strip_prefix('#').unwrap_or(name).trim().to_lowercase()
}

/// What a channel is called in lists.
fn channel_label(platform: &str, channel: &Channel) -> String {
    match platform {
        "discord" if channel.guild.is_some() => format!("#{}", channel.name),
        _ if channel.kind.is_empty() => channel.name.clone(),
        _ => format!("{} ({})", channel.name, channel.kind),
    }
}

/// A chat and its target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SendTarget {
    /// What to send to: `telegram:-100123:7`.
    pub target: String,
    pub platform: String,
    /// The chat's name for people; may be empty.
    pub name: String,
    /// `dm`, `group`, `channel`, …; may be empty.
    pub chat_type: String,
}

/// All known chats, or those of a platform.
pub(super) async fn known_targets(
    home: &Home,
    conversations: &ConversationIndex,
    platform: Option<&str>,
) -> Result<Vec<SendTarget>, StoreError> {
    let directory = ChannelDirectory::load(home).unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to read the channel directory");
        None
    });
    let mut targets = match directory {
        Some(directory) => directory_targets(&directory),
        None => conversation_targets(conversations).await?,
    };
    if let Some(platform) = platform {
        targets.retain(|target| target.platform.eq_ignore_ascii_case(platform));
    }
    Ok(targets)
}

fn directory_targets(directory: &ChannelDirectory) -> Vec<SendTarget> {
    let channels = directory.platforms.iter().flat_map(|(platform, channels)| {
        channels.iter().map(move |channel| SendTarget {
            target: match &channel.id {
                Some(id) => format!("{platform}:{id}"),
                None => platform.clone(),
            },
            platform: platform.clone(),
            name: channel.name.clone(),
            chat_type: channel.kind.clone(),
        })
    });
    channels.collect()
}

/// The chats of open conversations, each once, the last used first.
async fn conversation_targets(
    conversations: &ConversationIndex,
) -> Result<Vec<SendTarget>, StoreError> {
    let entries = conversations.entries().await?;
    let mut known = HashSet::new();
    let targets = entries
        .iter()
        .filter(|entry| !entry.chat_id.is_empty())
        .map(|entry| SendTarget {
            target: format!("{}:{}", entry.platform, entry.chat_id),
            platform: entry.platform.clone(),
            name: entry.display_name.clone(),
            chat_type: entry.chat_type.clone(),
        })
        .filter(|target| known.insert(target.target.clone()))
        .collect();
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_known_by_their_form() {
        for (platform, reference, id, thread) in [
            ("telegram", "123", "123", None),
            ("telegram", "-100123", "-100123", None),
            ("telegram", "-100123:7", "-100123", Some("7")),
            ("telegram", "@some_bot", "@some_bot", None),
            ("discord", "42", "42", None),
            ("discord", "42:43", "42", Some("43")),
            ("slack", "C12345678", "C12345678", None),
            ("slack", "U12345678", "U12345678", None),
            ("slack", "W12345678", "W12345678", None),
            ("slack", "D1234567AB:17.01", "D1234567AB", Some("17.01")),
            ("whatsapp", "123", "123", None),
        ] {
            assert_eq!(
                parse_chat_id(platform, reference),
                Some(ChatTarget::new(id, thread)),
                "{platform}:{reference}"
            );
        }
        for (platform, reference) in [
            ("telegram", "12a"),
            ("telegram", "-"),
            ("telegram", "1:x"),
            ("telegram", "@abc"),
            ("telegram", "@with space"),
            ("discord", "-42"),
            ("discord", "general"),
            ("slack", "C1234567"),
            ("slack", "c12345678"),
            ("slack", "U12345678:17.01"),
            ("slack", "W12345678:17.01"),
            ("slack", "X12345678"),
            ("whatsapp", "12a"),
            ("whatsapp", "1:2"),
        ] {
            assert_eq!(
                parse_chat_id(platform, reference),
                None,
                "{platform}:{reference}"
            );
        }
    }

    fn channel(id: &str, name: &str, kind: &str, guild: Option<&str>) -> Channel {
        Channel {
            id: Some(id.into()),
            name: name.into(),
            kind: kind.into(),
            guild: guild.map(str::to_owned),
            thread_id: None,
        }
    }

    #[test]
    fn names_are_found_in_the_order_of_their_certainty() {
        let channels = [
            channel("1", "general", "channel", Some("Work")),
            channel("2", "general", "channel", Some("Play")),
            channel("3", "Alerts", "channel", Some("Work")),
            channel("4", "1", "dm", None),
            channel("5", "Anna", "dm", None),
        ];
        for (reference, id) in [
            ("1", Some("1")),
            ("GENERAL", Some("1")),
            ("#general", Some("1")),
            ("play/general", Some("2")),
            ("Play/#general", Some("2")),
            ("al", Some("3")),
            ("#ale", Some("3")),
            ("anna (dm)", Some("5")),
            ("a", None),
            ("gene", None),
            ("#", None),
            ("nobody", None),
        ] {
            let found = find_channel("discord", &channels, reference);
            assert_eq!(
                found.and_then(|found| found.id.as_deref()),
                id,
                "{reference}"
            );
        }
    }
}
