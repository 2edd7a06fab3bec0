//! The known chats: from the channel directory, else from conversations.

use std::collections::HashSet;

use hermes_config::Home;
use hermes_store::{StoreError, mirror::ChannelDirectory};
use serde::Serialize;

use crate::conversations::ConversationIndex;

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
        tracing::warn!(%error, "reading the channel directory failed");
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
