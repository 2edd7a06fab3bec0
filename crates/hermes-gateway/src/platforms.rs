//! The names of platforms and of their accounts, and which of them a bridge shows: messaging services, unless others are
//! chosen.

use std::fmt;

use hermes_config::Platform;
use hermes_store::OwnPlatform;

const MESSAGING: &str = "messaging";
const ALL: &str = "all";

/// All known platform names, whether messages can be sent there or not.
const PLATFORM_NAMES: [&str; 24] = [
    "local",
    "telegram",
    "discord",
    "slack",
    "whatsapp",
    "whatsapp_cloud",
    "signal",
    "mattermost",
    "matrix",
    "homeassistant",
    "email",
    "sms",
    "dingtalk",
    "api_server",
    "webhook",
    "msgraph_webhook",
    "feishu",
    "wecom",
    "wecom_callback",
    "weixin",
    "bluebubbles",
    "qqbot",
    "yuanbao",
    "relay",
];

/// Whether this is a platform name, supported here or not.
pub(crate) fn is_platform(name: &str) -> bool {
    PLATFORM_NAMES.contains(&name)
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlatformFilter {
    messaging: MessagingSelection,
    own_platforms: Vec<OwnPlatform>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum MessagingSelection {
    #[default]
    All,
    Named(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a platform")]
pub struct UnknownPlatform(pub String);

impl PlatformFilter {
    /// What can be named besides messaging services.
    pub const WORDS: [&str; 5] = ["cli", "api", "cron", MESSAGING, ALL];

    /// The named platforms; the default if none is named.
    pub fn from_names(names: &[impl AsRef<str>]) -> Result<Self, UnknownPlatform> {
        let mut shown = Self {
            messaging: MessagingSelection::Named(Vec::new()),
            own_platforms: Vec::new(),
        };
        for name in names {
            let name = name.as_ref().trim().to_ascii_lowercase();
            if name == ALL {
                return Ok(Self {
                    messaging: MessagingSelection::All,
                    own_platforms: OwnPlatform::ALL.to_vec(),
                });
            }
            if name.is_empty() {
                continue;
            }
            if name == MESSAGING {
                shown.messaging = MessagingSelection::All;
            } else if let Some(own) = OwnPlatform::from_name(&name) {
                shown.own_platforms.push(own);
            } else if !is_platform(&name) {
                return Err(UnknownPlatform(name));
            } else if let MessagingSelection::Named(named) = &mut shown.messaging {
                named.push(name);
            }
        }
        if shown.messaging == MessagingSelection::Named(Vec::new())
            && shown.own_platforms.is_empty()
        {
            return Ok(Self::default());
        }
        shown.own_platforms.sort_unstable();
        shown.own_platforms.dedup();
        Ok(shown)
    }

    /// The shown platforms that are not messaging services.
    pub fn own_platforms(&self) -> &[OwnPlatform] {
        &self.own_platforms
    }

    /// Whether conversations of that platform are shown.
    pub fn shows(&self, platform: &str) -> bool {
        if let Some(own) = OwnPlatform::from_name(platform) {
            return self.own_platforms.contains(&own);
        }
        match &self.messaging {
            MessagingSelection::All => true,
            MessagingSelection::Named(named) => {
                named.iter().any(|name| name.eq_ignore_ascii_case(platform))
            }
        }
    }

    /// Whether the conversation of a key is shown. Chat keys have the form `agent:NAMESPACE:PLATFORM:…`; others
    /// have no platform and are always shown.
    pub fn shows_key(&self, key: &str) -> bool {
        if let Some(own) = OwnPlatform::from_session_key(key) {
            return self.own_platforms.contains(&own);
        }
        let MessagingSelection::Named(_) = &self.messaging else {
            return true;
        };
        let mut parts = key.split(':');
        match (parts.next(), parts.nth(1)) {
            (Some("agent"), Some(platform)) => self.shows(platform),
            _ => true,
        }
    }

    pub fn shows_everything(&self) -> bool {
        self.messaging == MessagingSelection::All
            && self.own_platforms.len() == OwnPlatform::ALL.len()
    }
}

/// A bot account. The first one of a platform has no name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Account {
    pub platform: Platform,
    /// Empty for the first account.
    pub name: String,
}

impl Account {
    pub fn first(platform: Platform) -> Self {
        Self {
            platform,
            name: String::new(),
        }
    }

    /// `telegram`, or `telegram@work`: the platform in session keys, in the state file and in targets.
    pub fn label(&self) -> String {
        if self.name.is_empty() {
            self.platform.name().to_owned()
        } else {
            format!("{}@{}", self.platform.name(), self.name)
        }
    }

    /// A variable of this account: `TELEGRAM_BOT_TOKEN`, `TELEGRAM_BOT_TOKEN_WORK`.
    pub fn variable(&self, what: &str) -> String {
        let name = self.platform.variable(what);
        if self.name.is_empty() {
            return name;
        }
        format!(
            "{name}_{}",
            self.name.to_ascii_uppercase().replace('-', "_")
        )
    }

    /// The command that asks for the tokens of this account.
    pub fn setup_command(&self) -> String {
        let command = format!("hermes gateway setup --platform {}", self.platform.name());
        if self.name.is_empty() {
            command
        } else {
            format!("{command} --account {}", self.name)
        }
    }

    /// Reads a label.
    pub fn from_label(label: &str) -> Option<Self> {
        let (platform, name) = label.split_once('@').unwrap_or((label, ""));
        Some(Self {
            platform: Platform::from_name(platform)?,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messaging_services_are_shown_unless_others_are_named() {
        let shown = |names: &[&str]| PlatformFilter::from_names(names).unwrap();
        let usual = shown(&[]);
        assert_eq!(usual, PlatformFilter::default());
        assert!(usual.shows("telegram") && usual.shows("one-day") && !usual.shows("cli"));
        let own = shown(&["cli", "API"]);
        assert!(own.shows("cli") && own.shows("api") && !own.shows("cron") && !own.shows("slack"));
        let both = shown(&["messaging", "cli"]);
        assert!(both.shows("slack") && both.shows("cli") && !both.shows_everything());
        let one = shown(&["Telegram"]);
        assert!(one.shows("telegram") && !one.shows("slack"));
        assert!(
            one.shows_key("agent:main:telegram:dm:1") && !one.shows_key("agent:main:slack:dm:1")
        );
        assert!(one.shows_key("") && !one.shows_key("cli:20260101_010101_abcdef"));
        assert!(both.shows_key("cli:20260101_010101_abcdef"));
        assert!(shown(&["all"]).shows_everything());
        let unknown = PlatformFilter::from_names(&["telegarm"]).unwrap_err();
        assert_eq!(unknown.to_string(), "`telegarm` is not a platform");
    }
}
