//! What is set about one bot account, and which accounts a platform has.

use super::{
    AccessSettings, GroupSettings, Platform, ProxyVariables, UnauthorizedDm,
    keys::{AccountKeys, KeyScope, account_suffix},
};
use crate::{Secret, fields::Fields};

/// What is set about one bot account of a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct PlatformSettings {
    /// The bot's token. None if there is none, or the platform is switched off.
    pub token: Option<Secret<String>>,
    /// Slack's second token, with which updates are received (`SLACK_APP_TOKEN`).
    pub app_token: Option<Secret<String>>,
    /// Where messages go that name no chat.
    pub home_channel: Option<HomeChannel>,
    /// Where the platform's API is.
    pub base_url: String,
    /// Where Telegram's files are, if not beside its API.
    pub base_file_url: Option<String>,
    /// Whether the token may be sent without TLS to another machine.
    pub allow_http: bool,
    /// The proxy to use instead of the system's (`DISCORD_PROXY`).
    pub proxy: Option<String>,
    /// The proxies that variables name for all programs.
    pub proxies: ProxyVariables,
    /// Telegram's webhook, if updates come by one.
    pub webhook: Option<WebhookSettings>,
    /// Who may use it.
    pub access: AccessSettings,
    /// When it answers in groups.
    pub groups: GroupSettings,
    /// `reply_to_mode`: which messages of an answer are replies to the question.
    pub reply_to_mode: ReplyToMode,
    /// `reply_in_thread`: whether answers in Slack's channels go to a thread.
    pub reply_in_thread: bool,
    /// `streaming`: whether an answer is shown while it grows.
    pub is_streaming: bool,
    /// `reactions`: whether a received message gets a reaction.
    pub has_reactions: bool,
    /// `typing_indicator`.
    pub shows_typing: bool,
}

/// A chat that messages go to by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeChannel {
    pub chat_id: String,
    /// Its name for people.
    pub name: Option<String>,
    /// The thread or topic in it.
    pub thread_id: Option<String>,
}

/// Which messages of an answer are replies to the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplyToMode {
    Off,
    #[default]
    First,
    All,
}

/// Telegram's webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// The address that Telegram calls, with https.
    pub url: String,
    /// What Telegram presents in every call.
    pub secret: Secret<String>,
    /// Where this machine listens for it.
    pub host: String,
    pub port: u16,
}

const WEBHOOK_PORT: u16 = 8443;

/// What the gateway's own keys say about all accounts.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedDefaults {
    pub(super) unauthorized_dm: UnauthorizedDm,
    pub(super) observe: bool,
    pub(super) is_streaming: bool,
}

const REPLY_MODES: [(&str, ReplyToMode); 5] = [
    ("off", ReplyToMode::Off),
    ("first", ReplyToMode::First),
    ("all", ReplyToMode::All),
    ("false", ReplyToMode::Off),
    ("true", ReplyToMode::First),
];

impl PlatformSettings {
    /// What holds where nothing is set.
    pub fn default_of(platform: Platform) -> Self {
        Self {
            token: None,
            app_token: None,
            home_channel: None,
            base_url: platform.default_base_url().to_owned(),
            base_file_url: None,
            allow_http: false,
            proxy: None,
            proxies: ProxyVariables::default(),
            webhook: None,
            access: AccessSettings::default(),
            groups: GroupSettings::default_of(platform),
            reply_to_mode: ReplyToMode::default(),
            reply_in_thread: true,
            is_streaming: true,
            has_reactions: false,
            shows_typing: true,
        }
    }

    pub(super) fn read(keys: &AccountKeys<'_>, shared: SharedDefaults) -> Self {
        let platform = keys.platform;
        let default = Self::default_of(platform);
        let (own, inherited) = (KeyScope::Own, KeyScope::Inherited);
        let is_enabled = keys.flag("ENABLED", &["enabled"], true, inherited);
        let secret = |variable: &str, name: &'static str| {
            keys.text(variable, &[name], own)
                .filter(|_| is_enabled)
                .map(Secret::new)
        };
        Self {
            token: secret("BOT_TOKEN", "token"),
            app_token: secret("APP_TOKEN", "app_token").filter(|_| platform == Platform::Slack),
            home_channel: read_home_channel(keys),
            base_url: keys
                .text("BASE_URL", &["base_url"], inherited)
                .unwrap_or(default.base_url),
            base_file_url: keys.text("BASE_FILE_URL", &["base_file_url"], inherited),
            allow_http: keys.flag("ALLOW_HTTP", &["allow_http"], false, inherited),
            proxy: keys
                .text("PROXY", &[], inherited)
                .filter(|_| platform == Platform::Discord),
            proxies: ProxyVariables::read(keys.variables),
            webhook: read_webhook(keys).filter(|_| platform == Platform::Telegram),
            access: AccessSettings::read(keys, shared.unauthorized_dm),
            groups: GroupSettings::read(keys, shared.observe),
            reply_to_mode: keys.choice(
                "REPLY_TO_MODE",
                &["reply_to_mode"],
                &REPLY_MODES,
                default.reply_to_mode,
                inherited,
            ),
            reply_in_thread: keys.flag("REPLY_IN_THREAD", &["reply_in_thread"], true, inherited),
            is_streaming: read_streaming(keys, shared.is_streaming),
            has_reactions: keys.flag("REACTIONS", &["reactions"], false, inherited),
            shows_typing: keys.flag("TYPING_INDICATOR", &["typing_indicator"], true, inherited),
        }
    }

    /// All that must not be shown.
    pub(super) fn secrets(&self) -> impl Iterator<Item = Secret<String>> {
        let webhook = self.webhook.as_ref().map(|webhook| webhook.secret.clone());
        let tokens = [self.token.clone(), self.app_token.clone(), webhook];
        tokens.into_iter().flatten()
    }
}

/// The accounts of a platform beyond the first one, by name.
pub(super) fn read_accounts(
    keys: &AccountKeys<'_>,
    shared: SharedDefaults,
) -> Vec<(String, PlatformSettings)> {
    let sections = keys.sections("accounts");
    let mut names: Vec<String> = Vec::new();
    for section in &sections {
        for (written, value) in section.entries() {
            let name = written.to_ascii_lowercase();
            if !value.is_object() {
                section.warn(
                    written,
                    "must be a mapping such as `{token: …}`; it is ignored",
                );
            } else if !is_account_name(&name) {
                section.warn(
                    written,
                    "is not a name for an account: use letters, digits, `-` and `_`, 32 at most, and not `name`",
                );
            } else if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    for name in keys.accounts_in_variables() {
        let is_known = |known: &String| account_suffix(known) == account_suffix(&name);
        if is_account_name(&name) && !names.iter().any(is_known) {
            names.push(name);
        }
    }
    let read = |name: &String| {
        let places: Vec<Fields> = sections
            .iter()
            .flat_map(|section| {
                section.entries().filter_map(|(written, value)| {
                    let map = value.as_object()?;
                    written
                        .eq_ignore_ascii_case(name)
                        .then(|| section.mapping(written, map))
                })
            })
            .collect();
        PlatformSettings::read(&keys.of_account(name, &places), shared)
    };
    names
        .iter()
        .map(|name| (name.clone(), read(name)))
        .collect()
}

/// Names become parts of file names, session keys and variables.
fn is_account_name(name: &str) -> bool {
    let is_allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
    };
    // `TELEGRAM_HOME_CHANNEL_NAME` is the name of a channel.
    let is_taken = matches!(name, "name" | "thread_id" | "thread-id");
    (1..=32).contains(&name.len()) && name.bytes().all(is_allowed) && !is_taken
}

/// `home_channel`: an id, or a mapping with `chat_id`.
fn read_home_channel(keys: &AccountKeys<'_>) -> Option<HomeChannel> {
    let own = KeyScope::Own;
    if let Some(chat_id) = keys.text("HOME_CHANNEL", &[], own) {
        return Some(HomeChannel {
            chat_id,
            name: keys.text("HOME_CHANNEL_NAME", &[], own),
            thread_id: keys.text("HOME_CHANNEL_THREAD_ID", &[], own),
        });
    }
    let place = keys.place_of("home_channel")?;
    let filled = |fields: &Fields, key| {
        let text = fields.filled_text(key)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    if !place.get("home_channel")?.is_object() {
        return Some(HomeChannel {
            chat_id: filled(place, "home_channel")?,
            name: None,
            thread_id: None,
        });
    }
    let channel = place.section("home_channel");
    Some(HomeChannel {
        chat_id: filled(&channel, "chat_id")?,
        name: filled(&channel, "name"),
        thread_id: filled(&channel, "thread_id"),
    })
}

fn read_webhook(keys: &AccountKeys<'_>) -> Option<WebhookSettings> {
    let own = KeyScope::Own;
    let url = keys.text("WEBHOOK_URL", &["webhook_url"], own)?;
    let Some(secret) = keys.text("WEBHOOK_SECRET", &["webhook_secret"], own) else {
        keys.warn(
            "WEBHOOK_URL",
            &["webhook_url"],
            format!(
                "is not used without a secret, and updates are polled; set `{}` to 16 random characters or more",
                keys.variable_name("WEBHOOK_SECRET")
            ),
        );
        return None;
    };
    let port = match keys.text("WEBHOOK_PORT", &["webhook_port"], own) {
        None => WEBHOOK_PORT,
        Some(port) => port.parse().unwrap_or_else(|_| {
            let message = format!("is not a port; {WEBHOOK_PORT} is used instead");
            keys.warn("WEBHOOK_PORT", &["webhook_port"], message);
            WEBHOOK_PORT
        }),
    };
    Some(WebhookSettings {
        url,
        secret: Secret::new(secret),
        host: keys
            .text("WEBHOOK_HOST", &["webhook_host"], own)
            .unwrap_or_else(|| "127.0.0.1".into()),
        port,
    })
}

/// `streaming`: a flag, or a mapping with `enabled`.
fn read_streaming(keys: &AccountKeys<'_>, default: bool) -> bool {
    match keys.mapping_of("streaming") {
        Some(section) => section.flag("enabled", default),
        None => keys.flag("STREAMING", &["streaming"], default, KeyScope::Inherited),
    }
}
