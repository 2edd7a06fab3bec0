//! People on Discord: they join, write, reply, press buttons and use commands.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{
    DiscordServer,
    interactions::InteractionRecord,
    messages::{self, new_message, rest_value, store_file},
    world::{
        ChannelRecord, DISCORD_BOT, DiscordData, GuildRecord, guild_channel_value, member_value,
        now, thread_value, user_value,
    },
};

/// Members of a guild that are empty here.
const GUILD_LISTS: [&str; 8] = [
    "emojis",
    "stickers",
    "features",
    "voice_states",
    "presences",
    "stage_instances",
    "guild_scheduled_events",
    "soundboard_sounds",
];
const GUILD_NULLS: [&str; 15] = [
    "icon",
    "icon_hash",
    "splash",
    "discovery_splash",
    "afk_channel_id",
    "application_id",
    "system_channel_id",
    "rules_channel_id",
    "max_presences",
    "vanity_url_code",
    "description",
    "banner",
    "public_updates_channel_id",
    "safety_alerts_channel_id",
    "widget_channel_id",
];

/// What somebody writes.
#[derive(Debug, Clone, Default)]
pub struct DiscordDraft {
    pub text: String,
    /// The message it replies to.
    pub reply_to: Option<String>,
    /// Names and contents of files.
    pub files: Vec<(String, Vec<u8>)>,
    /// Whether its file is something spoken.
    pub is_voice: bool,
    /// The message that it forwards.
    pub forwards: Option<String>,
    /// Members that the message has besides, whoever knows them.
    pub extra: Value,
}

impl DiscordDraft {
    pub fn text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }
}

impl DiscordServer {
    fn next_id(&self) -> String {
        self.platform.server.next_id().to_string()
    }

    /// A number that begins with the time at which it was given, as Discord's do: programs read the age of an interaction
    /// from it.
    fn next_timed_id(&self) -> String {
        const EPOCH_MILLIS: u128 = 1_420_070_400_000;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = now
            .unwrap_or_default()
            .as_millis()
            .saturating_sub(EPOCH_MILLIS);
        ((millis << 22) | u128::from(self.platform.server.next_id())).to_string()
    }

    /// Somebody without a chat or guild.
    pub fn add_user(&self, name: &str) -> String {
        let id = self.next_id();
        let user = user_value(&id, name, false);
        self.data().users.insert(id.clone(), user);
        id
    }

    /// Another bot.
    pub fn add_bot(&self, name: &str) -> String {
        let id = self.add_user(name);
        if let Some(user) = self.data().users.get_mut(&id) {
            user["bot"] = json!(true);
        }
        id
    }

    /// A guild with the bot in it, and with the role that belongs to the bot.
    pub fn add_guild(&self, name: &str) -> String {
        let (id, role) = (self.next_id(), self.next_id());
        let everyone = role_value(&id, "@everyone", None);
        let own = role_value(&role, "hermes", Some(DISCORD_BOT));
        let mut value = json!({
            "id": id, "name": name, "owner_id": "8000", "afk_timeout": 300, "verification_level": 0,
            "default_message_notifications": 0, "explicit_content_filter": 0, "roles": [everyone, own], "mfa_level": 0,
            "system_channel_flags": 0, "max_members": 500_000, "premium_tier": 0, "premium_subscription_count": 0,
            "preferred_locale": "en-US", "nsfw_level": 0, "nsfw": false, "premium_progress_bar_enabled": false,
            "joined_at": now(), "large": false, "unavailable": false, "widget_enabled": false,
            "max_video_channel_users": 25, "max_stage_video_channel_users": 50,
        });
        for key in GUILD_LISTS {
            value[key] = json!([]);
        }
        for key in GUILD_NULLS {
            value[key] = Value::Null;
        }
        let bot = member_value(&[&role]);
        let mut data = self.data();
        data.guilds.insert(
            id.clone(),
            GuildRecord {
                value,
                members: [(DISCORD_BOT.to_owned(), bot)].into(),
            },
        );
        let value = data.guild_value(&id).unwrap_or_default();
        data.gateway.dispatch("GUILD_CREATE", &value);
        id
    }

    /// The role that belongs to the bot.
    pub fn bot_role(&self, guild: &str) -> String {
        let data = self.data();
        let roles = &data.guilds[guild].value["roles"];
        roles[1]["id"].as_str().unwrap_or_default().to_owned()
    }

    /// A role, given to somebody.
    pub fn give_role(&self, guild: &str, user: &str, name: &str) -> String {
        let id = self.next_id();
        let mut data = self.data();
        if let Some(guild) = data.guilds.get_mut(guild) {
            let role = role_value(&id, name, None);
            if let Some(roles) = guild.value["roles"].as_array_mut() {
                roles.push(role);
            }
            let member = guild.members.entry(user.to_owned());
            let member = member.or_insert_with(|| member_value(&[]));
            if let Some(roles) = member["roles"].as_array_mut() {
                roles.push(json!(id));
            }
        }
        id
    }

    /// A text channel.
    pub fn add_channel(&self, guild: &str, name: &str) -> String {
        self.add_guild_channel(guild, 0, name)
    }

    /// A channel of threads only.
    pub fn add_forum(&self, guild: &str, name: &str) -> String {
        self.add_guild_channel(guild, 15, name)
    }

    fn add_guild_channel(&self, guild: &str, kind: u64, name: &str) -> String {
        let id = self.next_id();
        let value = guild_channel_value(&id, guild, kind, name);
        let mut data = self.data();
        data.gateway.dispatch("CHANNEL_CREATE", &value);
        data.channels.insert(id.clone(), ChannelRecord::new(value));
        id
    }

    /// A thread in a channel, opened by somebody.
    pub fn add_thread(&self, channel: &str, name: &str) -> String {
        let id = self.next_id();
        let mut data = self.data();
        let guild = data.channel_value(channel)["guild_id"].clone();
        let value = thread_value(&id, &guild, channel, name);
        data.gateway.dispatch("THREAD_CREATE", &value);
        data.channels.insert(id.clone(), ChannelRecord::new(value));
        id
    }

    /// The private chat of somebody with the bot.
    ///
    /// # Panics
    ///
    /// If there is nobody with this number.
    pub fn open_dm(&self, user: &str) -> String {
        let mut data = self.data();
        let opened = super::channels::open_direct(&self.platform.server, &mut data, user);
        let (_, value) = opened.unwrap_or_else(|refusal| panic!("{}", refusal.message));
        value["id"].as_str().unwrap_or_default().to_owned()
    }

    /// The bot may no longer post in a channel.
    pub fn forbid_channel(&self, channel: &str) {
        if let Some(record) = self.data().channels.get_mut(channel) {
            record.is_forbidden = true;
        }
    }

    /// The bot may not send voice messages to a channel.
    pub fn forbid_voice(&self, channel: &str) {
        if let Some(record) = self.data().channels.get_mut(channel) {
            record.is_voice_forbidden = true;
        }
    }

    /// What the bot is called in texts.
    pub fn mention_of_bot() -> String {
        format!("<@{DISCORD_BOT}>")
    }

    /// Somebody writes a text. Returns the message's number.
    pub fn say(&self, channel: &str, user: &str, text: &str) -> String {
        self.write(channel, user, &DiscordDraft::text(text))
    }

    /// Somebody writes. Returns the message's number.
    ///
    /// # Panics
    ///
    /// If there is no such channel.
    pub fn write(&self, channel: &str, user: &str, draft: &DiscordDraft) -> String {
        let id = self.next_id();
        let mut data = self.data();
        assert!(data.channels.contains_key(channel), "no channel {channel}");
        if let Some(guild) = data.guild_of(channel)
            && let Some(guild) = data.guilds.get_mut(&guild)
        {
            let member = guild.members.entry(user.to_owned());
            member.or_insert_with(|| member_value(&[]));
        }
        let mut message = new_message(&data, &id, channel, user, &draft.text);
        if let Some(other) = &draft.reply_to {
            add_reply(&data, channel, &mut message, other);
        }
        if let Some(other) = &draft.forwards {
            add_forward(&data, channel, &mut message, other);
        }
        let mut attachments = Vec::new();
        for (name, content) in &draft.files {
            let server = &self.platform.server;
            let mut attachment = store_file(server, &mut data, channel, name, content);
            if draft.is_voice {
                attachment["duration_secs"] = json!(2.5);
                attachment["waveform"] = json!("AAAA");
                message["flags"] = json!(1 << 13);
            }
            attachments.push(attachment);
        }
        message["attachments"] = attachments.into();
        for (key, value) in draft.extra.as_object().into_iter().flatten() {
            message[key] = value.clone();
        }
        messages::add(&mut data, channel, &message);
        id
    }

    /// Somebody presses a button. Returns the token of the interaction.
    ///
    /// # Panics
    ///
    /// If there is no such message.
    pub fn press(&self, channel: &str, message: &str, custom_id: &str, user: &str) -> String {
        let record = {
            let data = self.data();
            let record = data.channels.get(channel);
            let found = record.and_then(|record| record.message(message)).cloned();
            found.unwrap_or_else(|| panic!("no message {message}"))
        };
        let detail = json!({
            "message": rest_value(&record), "type": 3,
            "data": {"custom_id": custom_id, "component_type": 2, "id": 2},
        });
        self.interact(channel, user, &detail, Some(message.to_owned()))
    }

    /// Somebody uses a command, with options by name.
    pub fn use_command(&self, channel: &str, user: &str, name: &str, options: &Value) -> String {
        let options: Vec<Value> = options
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| json!({"name": name, "type": 3, "value": value}))
            .collect();
        let id = self.next_id();
        let detail = json!({
            "type": 2, "data": {"id": id, "name": name, "type": 1, "options": options},
        });
        self.interact(channel, user, &detail, None)
    }

    fn interact(
        &self,
        channel: &str,
        user: &str,
        detail: &Value,
        source: Option<String>,
    ) -> String {
        let id = self.next_timed_id();
        let token = format!("interaction-token-{id}");
        let mut data = self.data();
        let person = data.users.get(user).cloned().unwrap_or_default();
        let mut event = json!({
            "id": id, "application_id": DISCORD_BOT, "token": token, "version": 1, "channel_id": channel,
            "channel": data.channel_value(channel), "locale": "en-US", "app_permissions": "2147483647",
            "entitlements": [], "authorizing_integration_owners": {}, "context": 1, "attachment_size_limit": 10_485_760,
        });
        for (key, value) in detail.as_object().into_iter().flatten() {
            event[key] = value.clone();
        }
        if let Some(guild) = data.guild_of(channel) {
            let mut member = data
                .member(&guild, user)
                .unwrap_or_else(|| member_value(&[]));
            member["user"] = person;
            member["permissions"] = json!("2147483647");
            event["member"] = member;
            event["context"] = json!(0);
            event["guild"] = json!({"id": guild, "locale": "en-US", "features": []});
            event["guild_locale"] = json!("en-US");
            event["guild_id"] = guild.into();
        } else {
            event["user"] = person;
        }
        let record = InteractionRecord {
            id,
            channel: channel.to_owned(),
            made_at: Instant::now(),
            callback: None,
            source,
            reply: None,
            ephemeral: Vec::new(),
            is_ephemeral: false,
        };
        data.interactions.insert(token.clone(), record);
        data.gateway.dispatch("INTERACTION_CREATE", &event);
        token
    }
}

fn role_value(id: &str, name: &str, bot: Option<&str>) -> Value {
    let mut role = json!({
        "id": id, "name": name, "color": 0, "colors": {"primary_color": 0, "secondary_color": null, "tertiary_color": null},
        "hoist": false, "icon": null, "unicode_emoji": null, "position": 0, "permissions": "2147483647",
        "managed": bot.is_some(), "mentionable": true, "flags": 0,
    });
    if let Some(bot) = bot {
        role["tags"] = json!({"bot_id": bot});
    }
    role
}

fn add_reply(data: &DiscordData, channel: &str, message: &mut Value, other: &str) {
    let record = data.channels.get(channel);
    let known = record.and_then(|record| record.message(other));
    message["type"] = json!(19);
    message["message_reference"] = json!({"type": 0, "channel_id": channel, "message_id": other});
    message["referenced_message"] = known.map_or(Value::Null, rest_value);
}

fn add_forward(data: &DiscordData, channel: &str, message: &mut Value, other: &str) {
    let all = data.channels.values();
    let known = all
        .flat_map(|record| &record.messages)
        .find(|known| known["id"] == other);
    let snapshot = known.map_or(Value::Null, rest_value);
    message["message_reference"] = json!({"type": 1, "channel_id": channel, "message_id": other});
    message["message_snapshots"] = json!([{"message": {
        "type": 0, "content": snapshot["content"], "attachments": snapshot["attachments"], "embeds": [],
        "timestamp": snapshot["timestamp"], "edited_timestamp": null, "flags": 0, "mentions": [], "mention_roles": [],
        "components": [],
    }}]);
}
