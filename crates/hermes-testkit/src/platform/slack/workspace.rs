//! What a workspace remembers: people, channels, messages, files, and the app that is installed in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::sockets::SlackSocketTable;
use crate::script::lock;

/// The workspace.
pub const SLACK_TEAM: &str = "T0TEAM001";
/// The bot's user.
pub const SLACK_BOT_USER: &str = "U0BOT0001";
/// The bot itself, as messages name it.
pub const SLACK_BOT: &str = "B0BOT0001";
/// The app.
pub const SLACK_APP: &str = "A0APP0001";

/// What the app may do, unless a test takes something away.
const ALL_SCOPES: [&str; 20] = [
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "mpim:write",
    "reactions:read",
    "reactions:write",
    "team:read",
    "users:read",
];

/// Slack waits so long for an acknowledgement.
const ACK_TIMEOUT: Duration = Duration::from_secs(3);

/// A workspace, shared by all requests and sockets.
pub(in crate::platform) struct SlackWorkspace {
    state: Mutex<SlackWorkspaceState>,
}

pub(super) struct SlackWorkspaceState {
    pub(super) app_token: String,
    /// One-shot tests know the times of messages beforehand.
    is_clock_fixed: bool,
    last_time: u64,
    last_number: u64,
    pub(super) scopes: BTreeSet<String>,
    pub(super) is_revoked: bool,
    /// Methods that this Slack does not know yet.
    pub(super) unknown_methods: BTreeSet<String>,
    pub(super) users: BTreeMap<String, Value>,
    pub(super) channels: BTreeMap<String, SlackChannel>,
    pub(super) files: BTreeMap<String, SlackFile>,
    /// The status of agent sessions, by channel and thread.
    pub(super) session_status: BTreeMap<(String, String), String>,
    pub(super) sockets: SlackSocketTable,
    pub(super) ack_timeout: Duration,
}

pub(super) struct SlackChannel {
    pub(super) info: Value,
    /// In the order of their times, replies in threads among them.
    pub(super) messages: Vec<Value>,
    /// What only one person sees.
    pub(super) ephemeral: Vec<Value>,
    pub(super) members: BTreeSet<String>,
}

/// A file, and who may see it.
#[derive(Debug, Clone, Default)]
pub(super) struct SlackFile {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) mime_type: String,
    pub(super) length: usize,
    pub(super) content: Option<Vec<u8>>,
}

impl SlackWorkspace {
    pub(in crate::platform) fn new() -> Self {
        let mut users = BTreeMap::new();
        users.insert(
            SLACK_BOT_USER.to_owned(),
            json!({
                "id": SLACK_BOT_USER, "team_id": SLACK_TEAM, "name": "hermes", "is_bot": true,
                "profile": {"display_name": "hermes", "real_name": "Hermes", "bot_id": SLACK_BOT},
            }),
        );
        Self {
            state: Mutex::new(SlackWorkspaceState {
                app_token: String::new(),
                is_clock_fixed: true,
                last_time: 0,
                last_number: 0,
                scopes: ALL_SCOPES.iter().map(ToString::to_string).collect(),
                is_revoked: false,
                unknown_methods: BTreeSet::new(),
                users,
                channels: BTreeMap::new(),
                files: BTreeMap::new(),
                session_status: BTreeMap::new(),
                sockets: SlackSocketTable::default(),
                ack_timeout: ACK_TIMEOUT,
            }),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SlackWorkspaceState> {
        lock(&self.state)
    }
}

impl SlackWorkspaceState {
    /// Installs an app with this token for Socket Mode; from now on times are real.
    pub(super) fn install_app(&mut self, app_token: &str) {
        app_token.clone_into(&mut self.app_token);
        self.is_clock_fixed = false;
    }

    /// A time that no other message has, later than all before.
    pub(super) fn next_ts(&mut self, next_id: impl FnOnce() -> u64) -> String {
        if self.is_clock_fixed {
            return format!("1700000000.{:06}", next_id());
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = u64::try_from(now.as_micros()).unwrap_or_default();
        self.last_time = now.max(self.last_time + 1);
        let (seconds, micros) = (self.last_time / 1_000_000, self.last_time % 1_000_000);
        format!("{seconds}.{micros:06}")
    }

    /// An id that no other event, envelope or ticket has.
    pub(super) fn next_name(&mut self, prefix: &str) -> String {
        self.last_number += 1;
        format!("{prefix}{:08}", self.last_number)
    }

    pub(super) fn provided_scopes(&self) -> String {
        let scopes: Vec<&str> = self.scopes.iter().map(String::as_str).collect();
        scopes.join(",")
    }

    /// A channel, which exists as soon as somebody names it by an id.
    pub(super) fn channel(&mut self, id: &str) -> Result<&mut SlackChannel, &'static str> {
        if !id.starts_with(['C', 'D', 'G']) {
            return Err("channel_not_found");
        }
        let record = self
            .channels
            .entry(id.to_owned())
            .or_insert_with(|| SlackChannel::new(id, &id.to_ascii_lowercase()));
        if record.info["is_archived"] == true {
            return Err("is_archived");
        }
        Ok(record)
    }

    /// A message of a channel.
    pub(super) fn message(&mut self, channel: &str, ts: &str) -> Result<&mut Value, &'static str> {
        let messages = &mut self.channel(channel)?.messages;
        let found = messages.iter_mut().find(|message| message["ts"] == ts);
        found.ok_or("message_not_found")
    }

    /// Puts a message into its channel, and counts it in its thread.
    pub(super) fn add_message(
        &mut self,
        channel: &str,
        message: Value,
    ) -> Result<(), &'static str> {
        let record = self.channel(channel)?;
        if let Some(user) = message["user"].as_str() {
            record.members.insert(user.to_owned());
        }
        let thread = message["thread_ts"].as_str().unwrap_or_default();
        let parent = record
            .messages
            .iter_mut()
            .find(|parent| parent["ts"] == thread && parent["ts"] != message["ts"]);
        if let Some(parent) = parent {
            parent["thread_ts"] = parent["ts"].clone();
            let count = parent["reply_count"].as_u64().unwrap_or_default();
            parent["reply_count"] = json!(count + 1);
            parent["latest_reply"] = message["ts"].clone();
        }
        record.messages.push(message);
        Ok(())
    }

    /// The channel of the bot and a user.
    pub(super) fn open_direct(&mut self, user: &str) -> String {
        let id = format!("D{}", user.get(1..).unwrap_or_default());
        let record = self
            .channels
            .entry(id.clone())
            .or_insert_with(|| SlackChannel::new(&id, ""));
        record.info["user"] = json!(user);
        record.members.insert(user.to_owned());
        id
    }
}

impl SlackChannel {
    pub(super) fn new(id: &str, name: &str) -> Self {
        let is_direct = id.starts_with('D');
        let mut info = json!({
            "id": id, "is_im": is_direct, "is_channel": id.starts_with('C'), "is_group": id.starts_with('G'),
            "is_private": !id.starts_with('C'), "is_mpim": false, "is_archived": false, "is_member": true,
        });
        if !is_direct {
            info["name"] = json!(name);
        }
        Self {
            info,
            messages: Vec::new(),
            ephemeral: Vec::new(),
            members: BTreeSet::from([SLACK_BOT_USER.to_owned()]),
        }
    }

    /// `im`, `mpim`, `group` or `channel`, as events have it.
    pub(super) fn kind(&self) -> &'static str {
        let is = |name: &str| self.info[name] == true;
        if is("is_im") {
            "im"
        } else if is("is_mpim") {
            "mpim"
        } else if is("is_private") {
            "group"
        } else {
            "channel"
        }
    }
}

impl SlackFile {
    /// As messages show it.
    pub(super) fn describe(&self, id: &str, address: impl std::fmt::Display) -> Value {
        let url = format!("http://{address}/files-pri/{SLACK_TEAM}-{id}/{}", self.name);
        json!({
            "id": id, "name": self.name, "title": self.title, "mimetype": self.mime_type,
            "filetype": self.name.rsplit('.').next(), "size": self.length, "mode": "hosted",
            "url_private": url, "url_private_download": format!("{url}?download=1"),
        })
    }
}
