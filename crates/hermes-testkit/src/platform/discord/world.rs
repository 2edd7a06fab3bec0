//! What there is on Discord: the bot, people, guilds, channels and their messages.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use serde_json::{Value, json};

use super::{gateway::GatewayTable, interactions::InteractionRecord, limits::LimitTable};
use crate::script::lock;

/// The bot's own number, which is the one of its application, too.
pub const DISCORD_BOT: &str = "9000";

/// Intents that Discord gives only to applications that asked for them in the portal.
pub(super) const MESSAGE_CONTENT: u64 = 1 << 15;
pub(super) const PRIVILEGED: u64 = MESSAGE_CONTENT | 1 << 1 | 1 << 8;

pub(in crate::platform) struct DiscordWorld(Mutex<DiscordData>);

/// Everything behind one lock.
pub(super) struct DiscordData {
    pub(super) bot: Value,
    pub(super) application: Value,
    pub(super) users: BTreeMap<String, Value>,
    pub(super) guilds: BTreeMap<String, GuildRecord>,
    pub(super) channels: BTreeMap<String, ChannelRecord>,
    /// For one-shot tests: whatever channel is named exists.
    pub(super) has_every_channel: bool,
    /// Messages by channel and nonce.
    pub(super) nonces: BTreeMap<(String, String), String>,
    pub(super) commands: Vec<Value>,
    /// By token.
    pub(super) interactions: BTreeMap<String, InteractionRecord>,
    /// Uploads, by path.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    pub(super) max_file_bytes: usize,
    pub(super) gateway: GatewayTable,
    pub(super) limits: LimitTable,
    /// Channels in which the bot was typing.
    pub(super) typing: Vec<String>,
    pub(super) is_revoked: bool,
    /// How long an interaction waits for its first reply.
    pub(super) interaction_timeout: Duration,
}

/// A guild, as `GUILD_CREATE` says it.
pub(super) struct GuildRecord {
    pub(super) value: Value,
    /// Members by user.
    pub(super) members: BTreeMap<String, Value>,
}

/// A channel or thread.
pub(super) struct ChannelRecord {
    pub(super) value: Value,
    pub(super) messages: Vec<Value>,
    /// The bot may not post here.
    pub(super) is_forbidden: bool,
    /// Whether the bot may not send voice messages there.
    pub(super) is_voice_forbidden: bool,
}

impl ChannelRecord {
    pub(super) fn new(value: Value) -> Self {
        Self {
            value,
            messages: Vec::new(),
            is_forbidden: false,
            is_voice_forbidden: false,
        }
    }

    pub(super) fn kind(&self) -> u64 {
        self.value["type"].as_u64().unwrap_or_default()
    }

    pub(super) fn is_forum(&self) -> bool {
        matches!(self.kind(), 15 | 16)
    }

    pub(super) fn is_direct(&self) -> bool {
        self.kind() == 1
    }

    pub(super) fn message(&self, id: &str) -> Option<&Value> {
        self.messages.iter().find(|message| message["id"] == id)
    }

    pub(super) fn message_mut(&mut self, id: &str) -> Option<&mut Value> {
        self.messages.iter_mut().find(|message| message["id"] == id)
    }
}

impl DiscordWorld {
    pub(in crate::platform) fn new() -> Self {
        let bot = user_value(DISCORD_BOT, "hermes", true);
        let application = json!({
            "id": DISCORD_BOT, "name": "hermes", "icon": null, "description": "", "bot_public": false,
            "bot_require_code_grant": false, "verify_key": "00", "summary": "", "team": null, "flags": 1u64 << 19,
            "owner": user_value("8000", "owner", false), "interactions_endpoint_url": null, "bot": bot,
            "rpc_origins": [], "redirect_uris": [], "approximate_guild_count": 1, "install_params": null,
            "integration_types_config": {}, "approximate_user_install_count": 0, "tags": [],
        });
        Self(Mutex::new(DiscordData {
            users: BTreeMap::from([(DISCORD_BOT.to_owned(), bot.clone())]),
            bot,
            application,
            guilds: BTreeMap::new(),
            channels: BTreeMap::new(),
            has_every_channel: true,
            nonces: BTreeMap::new(),
            commands: Vec::new(),
            interactions: BTreeMap::new(),
            files: BTreeMap::new(),
            max_file_bytes: 10 << 20,
            gateway: GatewayTable::default(),
            limits: LimitTable::default(),
            typing: Vec::new(),
            is_revoked: false,
            interaction_timeout: Duration::from_secs(3),
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, DiscordData> {
        lock(&self.0)
    }
}

impl DiscordData {
    /// A channel, which is made where tests expect every one to exist. Numbers that begin with `15` are forums then.
    pub(super) fn channel(&mut self, id: &str) -> Option<&mut ChannelRecord> {
        if self.has_every_channel && !self.channels.contains_key(id) {
            let kind = if id.starts_with("15") { 15 } else { 0 };
            let value = json!({"id": id, "type": kind});
            self.channels
                .insert(id.to_owned(), ChannelRecord::new(value));
        }
        self.channels.get_mut(id)
    }

    /// The guild around a channel.
    pub(super) fn guild_of(&self, channel: &str) -> Option<String> {
        let record = self.channels.get(channel)?;
        record.value["guild_id"].as_str().map(str::to_owned)
    }

    /// Somebody as a member of a guild.
    pub(super) fn member(&self, guild: &str, user: &str) -> Option<Value> {
        let guild = self.guilds.get(guild)?;
        guild.members.get(user).cloned()
    }

    /// A guild with all that is in it, as `GUILD_CREATE` says it.
    pub(super) fn guild_value(&self, id: &str) -> Option<Value> {
        let guild = self.guilds.get(id)?;
        let mut value = guild.value.clone();
        let in_guild = |is_thread: bool| -> Vec<Value> {
            let records = self.channels.values().filter(|record| {
                record.value["guild_id"] == id && is_thread_kind(record.kind()) == is_thread
            });
            records.map(|record| record.value.clone()).collect()
        };
        value["channels"] = in_guild(false).into();
        value["threads"] = in_guild(true).into();
        let bot = guild.members.get(DISCORD_BOT).map(|member| {
            let mut member = member.clone();
            member["user"] = self.bot.clone();
            member
        });
        value["members"] = bot.into_iter().collect::<Vec<_>>().into();
        value["member_count"] = json!(guild.members.len());
        Some(value)
    }

    /// A channel with its recipients, or as part of its guild.
    pub(super) fn channel_value(&self, id: &str) -> Value {
        let record = self.channels.get(id);
        record.map_or(Value::Null, |record| record.value.clone())
    }
}

pub(super) fn is_thread_kind(kind: u64) -> bool {
    (10..=12).contains(&kind)
}

pub(super) fn user_value(id: &str, name: &str, is_bot: bool) -> Value {
    json!({
        "id": id, "username": name, "discriminator": "0", "global_name": null, "avatar": null, "bot": is_bot,
        "system": false, "public_flags": 0, "flags": 0, "banner": null, "accent_color": null, "mfa_enabled": false,
        "verified": true, "locale": "en-US", "email": null,
    })
}

pub(super) fn member_value(roles: &[&str]) -> Value {
    json!({
        "nick": null, "avatar": null, "roles": roles, "joined_at": now(), "premium_since": null, "deaf": false,
        "mute": false, "flags": 0, "pending": false, "communication_disabled_until": null,
    })
}

pub(super) fn guild_channel_value(id: &str, guild: &str, kind: u64, name: &str) -> Value {
    let mut value = json!({
        "id": id, "type": kind, "guild_id": guild, "position": 0, "permission_overwrites": [], "name": name,
        "topic": null, "nsfw": false, "last_message_id": null, "rate_limit_per_user": 0, "parent_id": null, "flags": 0,
    });
    if kind == 15 {
        value["available_tags"] = json!([]);
        value["default_reaction_emoji"] = Value::Null;
        value["default_sort_order"] = Value::Null;
        value["default_forum_layout"] = json!(0);
    }
    value
}

pub(super) fn thread_value(id: &str, guild: &Value, parent: &str, name: &str) -> Value {
    json!({
        "id": id, "type": 11, "guild_id": guild, "parent_id": parent, "owner_id": DISCORD_BOT, "name": name,
        "last_message_id": null, "message_count": 0, "member_count": 1, "total_message_sent": 0,
        "rate_limit_per_user": 0, "flags": 0,
        "thread_metadata": {
            "archived": false, "auto_archive_duration": 1440, "archive_timestamp": now(), "locked": false,
            "create_timestamp": now(),
        },
    })
}

/// The time, as Discord writes it.
pub(super) fn now() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}
