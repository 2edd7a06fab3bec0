//! Reading: channels for the directory, and messages that were missed.

use std::collections::HashMap;

use serde_json::Value;

use hermes_store::mirror::Channel;

use super::{DiscordClient, post::channel_of, updates::build_update};
use crate::platform::{ChatAddress, PostError, RawUpdate};

/// Text channels, and those of announcements.
const TEXT_KINDS: [u64; 2] = [0, 5];
const FORUM_KINDS: [u64; 2] = [15, 16];
const MISSED_MESSAGES: usize = 100;
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

    /// Messages after this one, oldest first.
    pub(super) async fn fetch_after(
        &self,
        chat: &ChatAddress,
        after: &str,
    ) -> Result<Vec<RawUpdate>, PostError> {
        self.fetch_identity().await?;
        let channel = channel_of(chat);
        let guild = self.guild_of(chat).await?;
        let path = format!("/channels/{channel}/messages?after={after}&limit={MISSED_MESSAGES}");
        let found = self.rest.get(&path).await?;
        let found = found.as_array().cloned().unwrap_or_default();
        let mut members = HashMap::new();
        let mut updates = Vec::new();
        // Discord lists the newest first.
        for mut message in found.into_iter().rev() {
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
