//! The chats messages can be sent to, as far as they are known: from the channel directory, else from conversations.

use std::collections::HashSet;

use hermes_config::Home;
use hermes_store::{
    Access, Conversation, Store, StoreError,
    mirror::{self, ChannelDirectory},
};
use serde::Serialize;

/// A chat and the target that leads to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// What to send to: `telegram:-100123:7`.
    pub target: String,
    /// The platform.
    pub platform: String,
    /// The chat's name for people; may be empty.
    pub name: String,
    /// `dm`, `group`, `channel`, …; may be empty.
    pub chat_type: String,
}

/// All known chats, or those of a platform.
pub(super) async fn targets(
    home: &Home,
    platform: Option<&str>,
) -> Result<Vec<Target>, StoreError> {
    let directory = ChannelDirectory::load(home).unwrap_or_else(|error| {
        tracing::warn!(%error, "the channel directory is left aside");
        None
    });
    let mut targets = match directory {
        Some(directory) => listed(&directory),
        None => seen(home).await?,
    };
    if let Some(platform) = platform {
        targets.retain(|target| target.platform.eq_ignore_ascii_case(platform));
    }
    Ok(targets)
}

fn listed(directory: &ChannelDirectory) -> Vec<Target> {
    let channels = directory.platforms.iter().flat_map(|(platform, channels)| {
        channels.iter().map(move |channel| Target {
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

/// The chats of open conversations, each once.
async fn seen(home: &Home) -> Result<Vec<Target>, StoreError> {
    let conversations = conversations(home).await?;
    let mut targets: Vec<Target> = conversations
        .into_iter()
        .filter_map(|conversation| {
            let session = conversation.session;
            let origin = session.origin.unwrap_or_default();
            let names = [session.display_name, origin.chat_name];
            let kind = session.chat_type.unwrap_or(origin.chat_type);
            target(
                session.source,
                session.chat_id.or(origin.chat_id),
                names,
                kind,
            )
        })
        .collect();
    if targets.is_empty() {
        let entries = mirror::read_sessions_file(home)?.into_iter();
        let entries = entries.filter_map(|entry| {
            let origin = entry.origin.unwrap_or_default();
            let platform = entry.details.platform.unwrap_or(origin.platform);
            let names = [entry.details.display_name, origin.chat_name];
            let kind = entry.details.chat_type.unwrap_or(origin.chat_type);
            target(platform, origin.chat_id, names, kind)
        });
        targets.extend(entries);
    }
    let mut known = HashSet::new();
    targets.retain(|target| known.insert(target.target.clone()));
    Ok(targets)
}

fn target(
    platform: String,
    chat_id: Option<String>,
    names: [Option<String>; 2],
    chat_type: String,
) -> Option<Target> {
    let chat_id = chat_id.filter(|id| !id.is_empty())?;
    let mut names = names.into_iter().flatten().filter(|name| !name.is_empty());
    Some(Target {
        target: format!("{platform}:{chat_id}"),
        platform,
        name: names.next().unwrap_or_default(),
        chat_type,
    })
}

async fn conversations(home: &Home) -> Result<Vec<Conversation>, StoreError> {
    let store = match Store::open(home, Access::ReadOnly).await {
        Err(StoreError::Absent { .. }) => return Ok(Vec::new()),
        opened => opened?,
    };
    let conversations = store.conversations().await;
    store.close().await;
    conversations
}
