//! The messaging platforms: tokens, home channels, and where their servers are.
//!
//! A variable wins over `config.yaml`, which wins over `gateway.json`. In each file a platform's keys may stand under
//! `<platform>`, `platforms.<platform>` or `gateway.platforms.<platform>`; the first place that has a key counts.

use std::{fmt, path::PathBuf};

use crate::{Secret, Variables, fields::Fields};

mod api_server;

pub use api_server::ApiServerSettings;

/// The platforms messages can be sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
pub struct GatewaySettings {
    telegram: PlatformSettings,
    discord: PlatformSettings,
    slack: PlatformSettings,
    /// The local HTTP API.
    pub api_server: ApiServerSettings,
    /// `max_concurrent_turns`: turns that go on side by side.
    pub max_concurrent_turns: u32,
    /// `HERMES_MEDIA_ALLOW_DIRS`: directories whose files may be sent wherever they are.
    pub media_dirs: Vec<PathBuf>,
}

/// Turns side by side, where the configuration does not say.
const DEFAULT_CONCURRENT_TURNS: u32 = 16;

impl GatewaySettings {
    /// What is set about a platform.
    pub fn platform(&self, platform: Platform) -> &PlatformSettings {
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
            .filter_map(|platform| self.platform(platform).token.clone())
            .chain(self.api_server.key.clone())
    }
}

/// What is set about one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformSettings {
    /// The bot's token. None if there is none, or the platform is switched off.
    pub token: Option<Secret<String>>,
    /// Where messages go that name no chat.
    pub home_channel: Option<HomeChannel>,
    /// Where the platform's API is.
    pub base_url: String,
    /// Whether the token may be sent without TLS to another machine.
    pub allow_http: bool,
    /// The proxy to use instead of the system's (`DISCORD_PROXY`).
    pub proxy: Option<String>,
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

/// Reads the settings from the documents, the most important one first.
pub(crate) fn parse_gateway(documents: &[&Fields], variables: &Variables) -> GatewaySettings {
    let parents: Vec<Fields> = documents
        .iter()
        .flat_map(|document| {
            let deeper = document.section("gateway").section("platforms");
            [(*document).clone(), document.section("platforms"), deeper]
        })
        .collect();
    let read = |platform| PlatformSettings::from_sections(platform, &parents, variables);
    // Keys of the gateway stand at the top level or under `gateway`.
    let turns = documents.iter().find_map(|document| {
        let places = [(*document).clone(), document.section("gateway")];
        let place = places
            .into_iter()
            .find(|place| place.is_set("max_concurrent_turns"))?;
        Some(place.integer("max_concurrent_turns", DEFAULT_CONCURRENT_TURNS, 1))
    });
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
    }
}

impl PlatformSettings {
    fn from_sections(platform: Platform, parents: &[Fields], variables: &Variables) -> Self {
        let places: Vec<Fields> = parents
            .iter()
            .map(|parent| parent.section(platform.name()))
            .collect();
        let extras: Vec<Fields> = places.iter().map(|place| place.section("extra")).collect();
        let variable = |what: &str| {
            variables
                .get(&platform.variable(what))
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let is_enabled = places
            .iter()
            .find(|place| place.is_set("enabled"))
            .is_none_or(|place| place.flag("enabled", true));
        Self {
            token: variable("BOT_TOKEN")
                .or_else(|| first_text(&places, "token"))
                .filter(|_| is_enabled)
                .map(Secret::new),
            home_channel: variable("HOME_CHANNEL")
                .map(|chat_id| HomeChannel {
                    chat_id,
                    name: variable("HOME_CHANNEL_NAME"),
                    thread_id: variable("HOME_CHANNEL_THREAD_ID"),
                })
                .or_else(|| places.iter().find_map(parse_home_channel)),
            base_url: variable("BASE_URL")
                .or_else(|| first_text(&extras, "base_url"))
                .unwrap_or_else(|| platform.default_base_url().to_owned()),
            allow_http: extras
                .iter()
                .find(|extra| extra.is_set("allow_http"))
                .is_some_and(|extra| extra.flag("allow_http", false)),
            proxy: variable("PROXY").filter(|_| platform == Platform::Discord),
        }
    }
}

/// The first text of that key, if it is one and its variables are set.
fn first_text(places: &[Fields], key: &str) -> Option<String> {
    let place = places.iter().find(|place| place.is_set(key))?;
    let text = place.filled_text(key)?.trim().to_owned();
    (!text.is_empty() && !text.contains("${")).then_some(text)
}

/// `home_channel`: an id, or a mapping with `chat_id`.
fn parse_home_channel(place: &Fields) -> Option<HomeChannel> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Home, Settings};

    fn parse(yaml: &str, variables: &[(&str, &str)]) -> Settings {
        Settings::parse(yaml, Variables::from_pairs(variables.iter().copied())).unwrap()
    }

    fn token(settings: &Settings, platform: Platform) -> Option<String> {
        let token = settings.gateway.platform(platform).token.as_ref()?;
        Some(token.expose().clone())
    }

    #[test]
    fn without_settings_there_are_the_services_and_no_token() {
        let settings = parse("", &[]);
        assert_eq!(settings.warnings, []);
        for platform in Platform::ALL {
            let found = settings.gateway.platform(platform);
            assert_eq!(found.token, None);
            assert_eq!(found.home_channel, None);
            assert!(found.base_url.starts_with("https://"));
            assert!(!found.allow_http);
        }
    }

    #[test]
    fn a_variable_wins_over_the_file() {
        let yaml = "telegram: {token: from-file, home_channel: 5, extra: {base_url: 'http://localhost:1'}}\n";
        let settings = parse(yaml, &[]);
        assert_eq!(token(&settings, Platform::Telegram).unwrap(), "from-file");
        let telegram = settings.gateway.platform(Platform::Telegram);
        assert_eq!(telegram.home_channel.as_ref().unwrap().chat_id, "5");
        assert_eq!(telegram.base_url, "http://localhost:1");

        let settings = parse(
            yaml,
            &[
                ("TELEGRAM_BOT_TOKEN", " from-variable "),
                ("TELEGRAM_HOME_CHANNEL", "-100"),
                ("TELEGRAM_HOME_CHANNEL_THREAD_ID", "7"),
                ("TELEGRAM_HOME_CHANNEL_NAME", "Team"),
                ("TELEGRAM_BASE_URL", "http://localhost:2"),
                ("DISCORD_PROXY", "http://proxy:3128"),
            ],
        );
        assert_eq!(
            token(&settings, Platform::Telegram).unwrap(),
            "from-variable"
        );
        let telegram = settings.gateway.platform(Platform::Telegram);
        assert_eq!(
            telegram.home_channel,
            Some(HomeChannel {
                chat_id: "-100".into(),
                name: Some("Team".into()),
                thread_id: Some("7".into()),
            })
        );
        assert_eq!(telegram.base_url, "http://localhost:2");
        assert_eq!(telegram.proxy, None);
        let discord = settings.gateway.platform(Platform::Discord);
        assert_eq!(discord.proxy.as_deref(), Some("http://proxy:3128"));
    }

    #[test]
    fn a_platform_may_stand_in_three_places() {
        let settings = parse(
            "slack: {home_channel: {chat_id: C1}}\n\
         platforms: {slack: {home_channel: C2, token: second}, discord: {token: '${DC}'}}\n\
         gateway: {platforms: {slack: {token: third, extra: {allow_http: yes}}, telegram: {token: '${NOPE}'}}}\n",
            &[("DC", "filled")],
        );
        let slack = settings.gateway.platform(Platform::Slack);
        assert_eq!(slack.home_channel.as_ref().unwrap().chat_id, "C1");
        assert!(slack.allow_http);
        assert_eq!(token(&settings, Platform::Slack).unwrap(), "second");
        assert_eq!(token(&settings, Platform::Discord).unwrap(), "filled");
        assert_eq!(token(&settings, Platform::Telegram), None);
        assert_eq!(settings.warnings.len(), 1, "{:?}", settings.warnings);
        assert_eq!(settings.gateway.secrets().count(), 2);
    }

    #[test]
    fn a_platform_that_is_switched_off_has_no_token() {
        let settings = parse(
            "discord: {enabled: false}\n",
            &[("DISCORD_BOT_TOKEN", "abc"), ("SLACK_BOT_TOKEN", "xoxb-1")],
        );
        assert_eq!(token(&settings, Platform::Discord), None);
        assert_eq!(token(&settings, Platform::Slack).unwrap(), "xoxb-1");
    }

    #[test]
    fn gateway_json_counts_where_nothing_else_does() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let file = directory.path().join("gateway.json");
        std::fs::write(
            &file,
            r#"{"platforms": {"slack": {"token": "old", "home_channel": {"platform": "slack", "chat_id": "C9", "name": "x"}}}}"#,
        )
        .unwrap();
        std::fs::write(home.config_file(), "slack: {token: new}\n").unwrap();
        let load = || Settings::load_with(&home, Variables::default(), Vec::new()).unwrap();
        let settings = load();
        assert_eq!(token(&settings, Platform::Slack).unwrap(), "new");
        let slack = settings.gateway.platform(Platform::Slack);
        assert_eq!(slack.home_channel.as_ref().unwrap().chat_id, "C9");

        std::fs::write(&file, "{nonsense").unwrap();
        let settings = load();
        assert_eq!(
            settings.gateway.platform(Platform::Slack).home_channel,
            None
        );
        assert!(
            settings.warnings[0].message.contains("gateway.json"),
            "{:?}",
            settings.warnings
        );
    }

    #[test]
    fn nothing_of_a_token_is_printed() {
        let settings = parse("", &[("SLACK_BOT_TOKEN", "xoxb-very-secret")]);
        assert!(!format!("{settings:?}").contains("very-secret"));
    }

    #[test]
    fn directories_for_media_are_absolute() {
        let settings = parse(
            "",
            &[("HERMES_MEDIA_ALLOW_DIRS", "/srv/a:relative::/srv/b")],
        );
        assert_eq!(
            settings.gateway.media_dirs,
            [PathBuf::from("/srv/a"), PathBuf::from("/srv/b")]
        );
    }
}
