//! Reading: channels for the directory, and messages that were missed.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use hermes_store::mirror::Channel;

use super::{DiscordClient, decode::build_update, post::channel_of};
use crate::platform::{
    ChatAddress, ChatKind, ChatMark, MAX_MISSED_MESSAGES, PostError, RawUpdate,
    address::is_later_message,
};

/// Text channels, and those of announcements.
const TEXT_KINDS: [u64; 2] = [0, 5];
const FORUM_KINDS: [u64; 2] = [15, 16];
/// Messages of a channel in one reply: the most that Discord lists.
const MESSAGE_PAGE: usize = 100;
const GUILD_PAGE: usize = 200;
const MAX_GUILD_PAGES: usize = 20;

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

impl DiscordClient {
    /// Text channels and forums of all guilds.
    pub(super) async fn fetch_channels(&self) -> Result<Vec<Channel>, PostError> {
        let mut channels = Vec::new();
        for guild in self.fetch_guilds().await? {
            let Some(id) = guild["id"].as_str() else {
                continue;
            };
            let listed = self.rest.get(&format!("/guilds/{id}/channels")).await?;
            for channel in listed.as_array().into_iter().flatten() {
                let kind = channel["type"].as_u64().unwrap_or_default();
                let kind = match kind {
                    kind if TEXT_KINDS.contains(&kind) => "channel",
                    kind if FORUM_KINDS.contains(&kind) => "forum",
                    _ => continue,
                };
                channels.push(Channel {
                    id: text(&channel["id"]),
                    name: text(&channel["name"]).unwrap_or_default(),
                    kind: kind.to_owned(),
                    guild: text(&guild["name"]),
                    thread_id: None,
                });
            }
        }
        Ok(channels)
    }

    async fn fetch_guilds(&self) -> Result<Vec<Value>, PostError> {
        let mut guilds: Vec<Value> = Vec::new();
        for _ in 0..MAX_GUILD_PAGES {
            let last = guilds.last().and_then(|guild| guild["id"].as_str());
            let after = last.map(|id| format!("&after={id}")).unwrap_or_default();
            let path = format!("/users/@me/guilds?limit={GUILD_PAGE}{after}");
            let page = self.rest.get(&path).await?;
            let page = page.as_array().cloned().unwrap_or_default();
            let is_last = page.len() < GUILD_PAGE;
            guilds.extend(page);
            if is_last {
                break;
            }
        }
        Ok(guilds)
    }

    /// The channels around threads, and threads of their guilds in which somebody wrote after these messages.
    pub(super) async fn find_active_chats(
        &self,
        known: &[ChatMark],
    ) -> Result<Vec<ChatMark>, PostError> {
        let mut found: BTreeMap<String, ChatMark> = BTreeMap::new();
        // The last message of each guild: everything before it was heard.
        let mut guilds: BTreeMap<String, String> = BTreeMap::new();
        for mark in known.iter().filter(|mark| !mark.chat.is_direct()) {
            let Some(guild) = self.passing(self.guild_of(&mark.chat).await)?.flatten() else {
                continue;
            };
            let last = guilds.entry(guild).or_default();
            if is_later_message(&mark.after, last) {
                last.clone_from(&mark.after);
            }
        }
        for mark in known {
            let parent = mark
                .chat
                .parent_id
                .as_ref()
                .zip(mark.chat.scope_id.as_ref());
            if let Some((parent, guild)) = parent {
                let mut chat = ChatAddress::new(parent, ChatKind::Group);
                chat.scope_id = Some(guild.clone());
                let after = guilds.get(guild).unwrap_or(&mark.after).clone();
                found.insert(parent.clone(), ChatMark { chat, after });
            }
        }
        for (guild, after) in guilds {
            let path = format!("/guilds/{guild}/threads/active");
            let listed = self.rest.get(&path).await.map_err(PostError::from);
            let Some(listed) = self.passing(listed)? else {
                continue;
            };
            for thread in listed["threads"].as_array().into_iter().flatten() {
                let last = thread["last_message_id"].as_str();
                let is_active = last.is_some_and(|last| is_later_message(last, &after));
                if let (Some(id), true) = (text(&thread["id"]), is_active) {
                    let chat = ChatAddress {
                        thread_id: Some(id.clone()),
                        scope_id: Some(guild.clone()),
                        parent_id: text(&thread["parent_id"]),
                        ..ChatAddress::new(&id, ChatKind::Thread)
                    };
                    let after = after.clone();
                    found.insert(id, ChatMark { chat, after });
                }
            }
        }
        found.retain(|id, _| !known.iter().any(|mark| channel_of(&mark.chat) == id));
        Ok(found.into_values().collect())
    }

    /// What was read; `None` where the bot may not read it, so that the others are still read.
    fn passing<T>(&self, read: Result<T, PostError>) -> Result<Option<T>, PostError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_temporary() => Err(error),
            Err(error) => {
                tracing::info!(platform = %self.account, %error, "failed to look for threads of Discord");
                Ok(None)
            }
        }
    }

    /// Messages after this one, oldest first.
    pub(super) async fn fetch_after(
        &self,
        chat: &ChatAddress,
        after: &str,
    ) -> Result<Vec<RawUpdate>, PostError> {
        self.fetch_identity().await?;
        let guild = self.guild_of(chat).await?;
        let found = self.list_after(channel_of(chat), after).await?;
        let mut members = HashMap::new();
        let mut updates = Vec::new();
        for mut message in found {
            // Events name the guild and the member, lists do not.
            if let Some(guild) = &guild {
                message["guild_id"] = Value::from(guild.clone());
                if let Some(author) = text(&message["author"]["id"]) {
                    message["member"] = self.fetch_member(&mut members, guild, author).await;
                }
            }
            updates.extend(build_update(self, "MESSAGE_CREATE", message).await);
        }
        Ok(updates)
    }

    /// The messages of a channel after this one, oldest first. Of too many, the newest.
    async fn list_after(&self, channel: &str, after: &str) -> Result<Vec<Value>, PostError> {
        let mut found = self
            .list_messages(channel, &format!("after={after}"))
            .await?;
        if found.len() < MESSAGE_PAGE {
            found.reverse();
            return Ok(found);
        }
        // There are more: from the newest one back.
        found = self.list_messages(channel, "").await?;
        let is_new = |message: &Value| {
            let id = message["id"].as_str();
            id.is_some_and(|id| is_later_message(id, after))
        };
        while found.last().is_some_and(is_new) && found.len() < MAX_MISSED_MESSAGES {
            let oldest = found.last().and_then(|message| text(&message["id"]));
            let before = format!("before={}", oldest.unwrap_or_default());
            let page = self.list_messages(channel, &before).await?;
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        if found.last().is_some_and(is_new) && found.len() >= MAX_MISSED_MESSAGES {
            tracing::warn!(platform = %self.account, channel, "more messages of Discord were missed than are fetched, the oldest are left out");
        }
        found.retain(is_new);
        found.truncate(MAX_MISSED_MESSAGES);
        found.reverse();
        Ok(found)
    }

    /// One page of a channel, newest first.
    async fn list_messages(&self, channel: &str, which: &str) -> Result<Vec<Value>, PostError> {
        let path = format!("/channels/{channel}/messages?limit={MESSAGE_PAGE}&{which}");
        let path = path.trim_end_matches('&');
        let mut page = self.rest.get(path).await?;
        Ok(page.as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// The guild around a chat: without it a message would pass for a private one.
    async fn guild_of(&self, chat: &ChatAddress) -> Result<Option<String>, PostError> {
        if chat.is_direct() || chat.scope_id.is_some() {
            return Ok(chat.scope_id.clone());
        }
        let channel = self
            .rest
            .get(&format!("/channels/{}", channel_of(chat)))
            .await?;
        Ok(text(&channel["guild_id"]))
    }

    /// The member that an author is; `null` where Discord does not tell.
    async fn fetch_member(
        &self,
        known: &mut HashMap<String, Value>,
        guild: &str,
        author: String,
    ) -> Value {
        if let Some(member) = known.get(&author) {
            return member.clone();
        }
        let path = format!("/guilds/{guild}/members/{author}");
        let member = self.rest.get(&path).await.unwrap_or_default();
        known.insert(author, member.clone());
        member
    }
}
