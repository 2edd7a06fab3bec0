//! The messaging platforms: tokens, home channels, where their servers are, who may use them, and how conversations go.
//!
//! A variable wins over `config.yaml`, which wins over `gateway.json`. In each file a platform's keys may stand under
//! `<platform>`, `platforms.<platform>` or `gateway.platforms.<platform>`; the first place that has a key counts.

use std::{fmt, path::PathBuf};

use crate::{
    Secret, Variables,
    fields::{Fields, parse_flag},
};

mod access;
mod account;
mod api_server;
mod groups;
mod keys;
mod proxies;
mod reset;

use account::SharedDefaults;
use keys::AccountKeys;

pub use access::{AccessSettings, BotPolicy, CommandAccess, IdList, UnauthorizedDm};
pub use account::{HomeChannel, PlatformSettings, ReplyToMode, WebhookSettings};
pub use api_server::ApiServerSettings;
pub use groups::{ChatRules, GroupSettings};
pub use proxies::ProxyVariables;
pub use reset::{ResetMode, ResetPolicy, ResetSettings};

/// The platforms messages can be sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Platform {
    /// Telegram, by its bot API.
    Telegram,
    /// Discord, by its REST API.
    Discord,
    /// Slack, by its web API.
    Slack,
}

impl Platform {
    pub const ALL: [Self; 3] = [Self::Telegram, Self::Discord, Self::Slack];

    /// The platform of that name, which is in lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|platform| platform.name() == name)
    }

    /// Its name in targets, in the configuration and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Telegram => "telegram",
            Self::Discord => "discord",
            Self::Slack => "slack",
        }
    }

    /// A variable about it, such as `TELEGRAM_BOT_TOKEN` for `BOT_TOKEN`.
    pub fn variable(self, what: &str) -> String {
        format!("{}_{what}", self.name().to_ascii_uppercase())
    }

    fn default_base_url(self) -> &'static str {
        match self {
            Self::Telegram => "https://api.telegram.org/bot",
            Self::Discord => "https://discord.com/api/v10",
            Self::Slack => "https://slack.com/api",
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Telegram => "Telegram",
            Self::Discord => "Discord",
            Self::Slack => "Slack",
        })
    }
}

/// Everything that is set about messaging.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct GatewaySettings {
    telegram: AccountList,
    discord: AccountList,
    slack: AccountList,
    /// The local HTTP API.
    pub api_server: ApiServerSettings,
    /// `max_concurrent_turns`: turns that go on side by side.
    pub max_concurrent_turns: u32,
    /// `HERMES_MEDIA_ALLOW_DIRS`: directories whose files may be sent wherever they are.
    pub media_dirs: Vec<PathBuf>,
    /// `GATEWAY_ALLOWED_USERS`: people who may use every account.
    pub allowed_users: IdList,
    /// `GATEWAY_ALLOW_ALL_USERS`: whether everybody may.
    pub allow_all_users: bool,
    /// `display.busy_input_mode`.
    pub busy_input_mode: BusyInputMode,
    /// `session_reset`, `reset_by_platform` and `reset_by_type`.
    pub session_reset: ResetSettings,
    /// `group_sessions_per_user`: everybody in a group has a session of their own.
    pub group_sessions_per_user: bool,
    /// `thread_sessions_per_user`: the same inside threads.
    pub thread_sessions_per_user: bool,
    /// `write_sessions_json`: whether the routing is mirrored to `sessions/sessions.json`.
    pub write_sessions_json: bool,
}

/// The bot accounts of one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AccountList {
    first: PlatformSettings,
    further: Vec<(String, PlatformSettings)>,
}

/// What a message does that arrives while the session is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BusyInputMode {
    /// It stops the turn and is the next one.
    #[default]
    Interrupt,
    /// It waits for its turn.
    Queue,
    /// It is shown to the model between two calls of the turn.
    Steer,
}

/// Turns side by side, where the configuration does not say.
const DEFAULT_CONCURRENT_TURNS: u32 = 16;

impl GatewaySettings {
    /// What is set about the first account of a platform.
    pub fn platform(&self, platform: Platform) -> &PlatformSettings {
        &self.list(platform).first
    }

    /// The accounts of a platform that have a token, by name. The first account's name is empty.
    pub fn accounts(
        &self,
        platform: Platform,
    ) -> impl Iterator<Item = (&str, &PlatformSettings)> + use<'_> {
        self.all_accounts(platform)
            .filter(|(_, settings)| settings.token.is_some())
    }

    /// The account of that name, with a token or without; the first one's name is empty.
    pub fn account(&self, platform: Platform, name: &str) -> Option<&PlatformSettings> {
        let mut accounts = self.all_accounts(platform);
        let (_, settings) = accounts.find(|(found, _)| *found == name)?;
        Some(settings)
    }

    /// The account that a target names: `telegram:5`, `telegram@work`.
    pub fn target_account(&self, target: &str) -> Option<&PlatformSettings> {
        let label = target.split(':').next()?.trim().to_lowercase();
        let (platform, account) = label.split_once('@').unwrap_or((&label, ""));
        self.account(Platform::from_name(platform)?, account)
    }

    fn all_accounts(
        &self,
        platform: Platform,
    ) -> impl Iterator<Item = (&str, &PlatformSettings)> + use<'_> {
        let list = self.list(platform);
        let further = list.further.iter();
        std::iter::once(("", &list.first))
            .chain(further.map(|(name, settings)| (name.as_str(), settings)))
    }

    fn list(&self, platform: Platform) -> &AccountList {
        match platform {
            Platform::Telegram => &self.telegram,
            Platform::Discord => &self.discord,
            Platform::Slack => &self.slack,
        }
    }

    /// All tokens, so that they can be taken out of messages.
    pub fn secrets(&self) -> impl Iterator<Item = Secret<String>> {
        Platform::ALL
            .into_iter()
            .flat_map(|platform| self.all_accounts(platform))
            .flat_map(|(_, settings)| settings.secrets())
            .chain(self.api_server.key.clone())
    }
}

/// Reads the settings from the documents, the most important one first.
pub(crate) fn parse_gateway(documents: &[&Fields], variables: &Variables) -> GatewaySettings {
    let parents: Vec<Fields> = documents
        .iter()
        .flat_map(|document| {
            let deeper = document.section("gateway").section("platforms");
            [(*document).clone(), document.section("platforms"), deeper]
        })
        .collect();
    // Keys of the gateway stand at the top level or under `gateway`.
    let places: Vec<Fields> = documents
        .iter()
        .flat_map(|document| [(*document).clone(), document.section("gateway")])
        .collect();
    let with = |key: &str| places.iter().find(|place| place.is_set(key));
    let flag = |key: &str, default| with(key).map_or(default, |place| place.flag(key, default));
    let shared = SharedDefaults {
        unauthorized_dm: with("unauthorized_dm_behavior").map_or_else(
            UnauthorizedDm::default,
            |place| {
                let default = UnauthorizedDm::default();
                place.choice("unauthorized_dm_behavior", &access::UNAUTHORIZED, default)
            },
        ),
        observe: flag("observe_groups", false),
        is_streaming: with("streaming").is_none_or(|place| match place.get("streaming") {
            Some(value) if value.is_object() => place.section("streaming").flag("enabled", true),
            _ => place.flag("streaming", true),
        }),
    };
    let root = documents.first().copied();
    let read = |platform: Platform| {
        let sections: Vec<Fields> = parents
            .iter()
            .map(|parent| parent.section(platform.name()))
            .collect();
        for section in &sections {
            section.warn_mistyped(&KNOWN_KEYS);
        }
        let Some(root) = root else {
            return AccountList {
                first: PlatformSettings::default_of(platform),
                further: Vec::new(),
            };
        };
        let keys = AccountKeys::first(platform, &sections, variables, root);
        AccountList {
            first: PlatformSettings::read(&keys, shared),
            further: account::read_accounts(&keys, shared),
        }
    };
    let turns = with("max_concurrent_turns")
        .map(|place| place.integer("max_concurrent_turns", DEFAULT_CONCURRENT_TURNS, 1));
    let media_dirs = variables.get("HERMES_MEDIA_ALLOW_DIRS").unwrap_or_default();
    GatewaySettings {
        telegram: read(Platform::Telegram),
        discord: read(Platform::Discord),
        slack: read(Platform::Slack),
        api_server: ApiServerSettings::from_sections(&parents, variables),
        max_concurrent_turns: turns.unwrap_or(DEFAULT_CONCURRENT_TURNS),
        media_dirs: std::env::split_paths(media_dirs)
            .filter(|path| path.is_absolute())
            .collect(),
        allowed_users: read_allowed_users(&places, variables),
        allow_all_users: read_allow_all(root, &places, variables),
        busy_input_mode: read_busy_mode(documents),
        session_reset: ResetSettings::read(&places),
        group_sessions_per_user: flag("group_sessions_per_user", true),
        thread_sessions_per_user: flag("thread_sessions_per_user", false),
        write_sessions_json: flag("write_sessions_json", true),
    }
}

/// Keys of a platform; one that is nearly so is a slip.
const KNOWN_KEYS: [&str; 43] = [
    "accounts",
    "allow_admin_from",
    "allow_all_users",
    "allow_bots",
    "allow_from",
    "allow_http",
    "allowed_channels",
    "allowed_chats",
    "allowed_roles",
    "allowed_topics",
    "allowed_users",
    "app_token",
    "auto_thread",
    "base_file_url",
    "base_url",
    "chats",
    "enabled",
    "extra",
    "free_response_channels",
    "free_response_chats",
    "free_response_topics",
    "group_allow_admin_from",
    "group_allow_from",
    "group_allowed_chats",
    "group_allowed_users",
    "group_user_allowed_commands",
    "home_channel",
    "mention_patterns",
    "observe_groups",
    "reactions",
    "reply_in_thread",
    "reply_to_mode",
    "require_mention",
    "streaming",
    "strict_mention",
    "token",
    "typing_indicator",
    "unauthorized_dm_behavior",
    "user_allowed_commands",
    "webhook_host",
    "webhook_port",
    "webhook_secret",
    "webhook_url",
];

fn read_allowed_users(places: &[Fields], variables: &Variables) -> IdList {
    let split = |text: &str| {
        let ids = text.split(',').map(str::trim).filter(|id| !id.is_empty());
        ids.map(str::to_owned).collect::<Vec<_>>()
    };
    match variables.get("GATEWAY_ALLOWED_USERS").map(split) {
        Some(ids) if !ids.is_empty() => IdList::new(ids),
        _ => {
            let place = places.iter().find(|place| place.is_set("allowed_users"));
            let texts = place.and_then(|place| place.texts_or_warn("allowed_users"));
            IdList::new(
                texts
                    .unwrap_or_default()
                    .iter()
                    .flat_map(|text| split(text)),
            )
        }
    }
}

fn read_allow_all(root: Option<&Fields>, places: &[Fields], variables: &Variables) -> bool {
    const VARIABLE: &str = "GATEWAY_ALLOW_ALL_USERS";
    let value = variables.get(VARIABLE).map(str::trim);
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        let place = places.iter().find(|place| place.is_set("allow_all_users"));
        return place.is_some_and(|place| place.flag("allow_all_users", false));
    };
    parse_flag(&value.into()).unwrap_or_else(|| {
        if let Some(root) = root {
            root.warn(VARIABLE, "must be true or false; false is used instead");
        }
        false
    })
}

fn read_busy_mode(documents: &[&Fields]) -> BusyInputMode {
    let modes = [
        ("interrupt", BusyInputMode::Interrupt),
        ("queue", BusyInputMode::Queue),
        ("steer", BusyInputMode::Steer),
    ];
    let sections = documents.iter().map(|document| document.section("display"));
    let mut set = sections.filter(|section| section.is_set("busy_input_mode"));
    set.next().map_or_else(BusyInputMode::default, |section| {
        section.choice("busy_input_mode", &modes, BusyInputMode::default())
    })
}

/// The first text of that key, if it is one and its variables are set.
fn first_text(places: &[Fields], key: &str) -> Option<String> {
    let place = places.iter().find(|place| place.is_set(key))?;
    let text = place.filled_text(key)?.trim().to_owned();
    (!text.is_empty() && !text.contains("${")).then_some(text)
}

#[cfg(test)]
mod tests;
