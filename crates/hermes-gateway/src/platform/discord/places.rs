//! Guilds and channels by number: names, kinds, parents, and the bot's own roles.
//!
//! A message names only its channel. What the gateway tells about channels is kept here; what it did not tell, because a
//! session was resumed, is asked once.

use std::{collections::HashMap, time::Duration};

use hermes_config::sync::Mutex;
use serde_json::{Value, json};

use super::rest::DiscordRest;

/// Receiving waits no longer than this for the name of a channel.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// More channels than this are forgotten and asked again.
const MAX_CHANNELS: usize = 50_000;

#[derive(Debug, Default)]
pub(super) struct ChannelCache(Mutex<ChannelCacheState>);

#[derive(Debug, Default)]
struct ChannelCacheState {
    guilds: HashMap<String, KnownGuild>,
    channels: HashMap<String, KnownChannel>,
}

#[derive(Debug, Clone, Default)]
struct KnownGuild {
    name: Option<String>,
    /// Roles of which the bot is the only member.
    bot_roles: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownChannel {
    kind: u64,
    name: Option<String>,
    parent: Option<String>,
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

impl KnownChannel {
    fn from_value(channel: &Value) -> Option<Self> {
        Some(Self {
            kind: channel["type"].as_u64()?,
            name: text(&channel["name"]),
            parent: text(&channel["parent_id"]),
        })
    }
}

fn bot_roles(roles: &Value, bot: &str) -> Vec<String> {
    let roles = roles.as_array().into_iter().flatten();
    let own = roles.filter(|role| role["tags"]["bot_id"] == bot);
    own.filter_map(|role| text(&role["id"])).collect()
}

impl ChannelCache {
    /// Learns from an event about guilds, channels, threads or roles.
    pub(super) fn learn(&self, name: &str, data: &Value, bot: &str) {
        let mut state = self.0.lock();
        match name {
            "GUILD_CREATE" | "GUILD_UPDATE" => {
                let Some(id) = text(&data["id"]) else {
                    return;
                };
                let guild = state.guilds.entry(id).or_default();
                guild.name = text(&data["name"]).or(guild.name.take());
                if data["roles"].is_array() {
                    guild.bot_roles = Some(bot_roles(&data["roles"], bot));
                }
                for list in ["channels", "threads"] {
                    state.add_channels(&data[list]);
                }
            }
            "GUILD_DELETE" => {
                state.guilds.remove(data["id"].as_str().unwrap_or_default());
            }
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
                state.add_channel(data);
            }
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                state
                    .channels
                    .remove(data["id"].as_str().unwrap_or_default());
            }
            "THREAD_LIST_SYNC" => state.add_channels(&data["threads"]),
            "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" | "GUILD_ROLE_DELETE" => {
                let id = data["guild_id"].as_str().unwrap_or_default();
                if let Some(guild) = state.guilds.get_mut(id) {
                    guild.bot_roles = None;
                }
            }
            _ => {}
        }
    }

    /// What is said about the channel of an event: its kind, its names, its guild. Asks Discord for what is not known.
    pub(super) async fn describe(&self, rest: &DiscordRest, event: &Value) -> Value {
        let Some(guild) = event["guild_id"].as_str() else {
            // Only people's private chats with the bot have no guild.
            return json!({"type": 1});
        };
        let id = event["channel_id"].as_str().unwrap_or_default();
        if KnownChannel::from_value(&event["channel"]).is_some() {
            self.0.lock().add_channel(&event["channel"]);
        }
        let channel = self.channel(rest, id).await;
        let parent = match channel.as_ref().and_then(|known| known.parent.clone()) {
            Some(parent) => self.channel(rest, &parent).await,
            None => None,
        };
        let guild_name = self.guild_name(rest, guild).await;
        json!({
            "type": channel.as_ref().map(|known| known.kind),
            "name": channel.as_ref().and_then(|known| known.name.clone()),
            "parent_id": channel.and_then(|known| known.parent),
            "parent_name": parent.and_then(|known| known.name),
            "guild_name": guild_name,
        })
    }

    async fn channel(&self, rest: &DiscordRest, id: &str) -> Option<KnownChannel> {
        if let Some(known) = self.0.lock().channels.get(id) {
            return Some(known.clone());
        }
        let value = lookup(rest, &format!("/channels/{id}")).await?;
        let known = KnownChannel::from_value(&value)?;
        self.0.lock().add_channel(&value);
        Some(known)
    }

    async fn guild_name(&self, rest: &DiscordRest, id: &str) -> Option<String> {
        let known = self.0.lock().guilds.get(id).cloned().unwrap_or_default();
        if known.name.is_some() {
            return known.name;
        }
        let value = lookup(rest, &format!("/guilds/{id}")).await?;
        let name = text(&value["name"])?;
        let mut state = self.0.lock();
        state.guilds.entry(id.to_owned()).or_default().name = Some(name.clone());
        Some(name)
    }

    /// The bot's own roles, which people mention as they mention the bot. Asked only where a role is mentioned.
    pub(super) async fn bot_roles(
        &self,
        rest: &DiscordRest,
        event: &Value,
        bot: &str,
    ) -> Vec<String> {
        let mentions_role = event["mention_roles"]
            .as_array()
            .is_some_and(|roles| !roles.is_empty());
        let Some(guild) = event["guild_id"].as_str().filter(|_| mentions_role) else {
            return Vec::new();
        };
        let known = self.0.lock().guilds.get(guild).cloned().unwrap_or_default();
        if let Some(roles) = known.bot_roles {
            return roles;
        }
        let Some(value) = lookup(rest, &format!("/guilds/{guild}/roles")).await else {
            return Vec::new();
        };
        let roles = bot_roles(&value, bot);
        let mut state = self.0.lock();
        let entry = state.guilds.entry(guild.to_owned()).or_default();
        entry.bot_roles = Some(roles.clone());
        roles
    }
}

impl ChannelCacheState {
    fn add_channel(&mut self, channel: &Value) {
        if self.channels.len() >= MAX_CHANNELS {
            self.channels.clear();
        }
        if let (Some(id), Some(known)) = (text(&channel["id"]), KnownChannel::from_value(channel)) {
            self.channels.insert(id, known);
        }
    }

    fn add_channels(&mut self, channels: &Value) {
        for channel in channels.as_array().into_iter().flatten() {
            self.add_channel(channel);
        }
    }
}

async fn lookup(rest: &DiscordRest, path: &str) -> Option<Value> {
    let asked = tokio::time::timeout(LOOKUP_TIMEOUT, rest.get(path)).await;
    match asked {
        Ok(Ok(value)) => Some(value),
        Ok(Err(failure)) => {
            tracing::info!(path, %failure, "failed to fetch a Discord channel");
            None
        }
        Err(_) => None,
    }
}
