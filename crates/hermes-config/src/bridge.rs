//! `bridge.*`: how the MCP server over a home's conversations behaves.

use crate::{Secret, fields::Fields};

/// The fewest events the log may be told to keep.
const MIN_EVENTS: u32 = 1000;

/// `bridge.*`.
#[derive(Debug, Clone, PartialEq)]
pub struct BridgeSettings {
    /// `bridge.max_inline_bytes`: longer data URLs are replaced by a resource to be read.
    pub max_inline_bytes: usize,
    /// `bridge.events.max`: how many events the log keeps.
    pub events_max: u32,
    /// `bridge.allow_media`: whether `MEDIA:` in a message to be sent uploads a file.
    pub allow_media: bool,
    /// `bridge.platforms`: whose conversations are shown; those of messaging platforms if empty.
    pub platforms: Vec<String>,
    pub http: BridgeHttpSettings,
}

/// `bridge.http.*`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BridgeHttpSettings {
    /// `bridge.http.token`: what clients present.
    pub token: Option<Secret<String>>,
    /// `bridge.http.allowed_origins`: web pages that may call, besides those of this machine.
    pub allowed_origins: Vec<String>,
    /// `bridge.http.allowed_hosts`: names under which it may be called, besides those of this machine.
    pub allowed_hosts: Vec<String>,
}

impl Default for BridgeSettings {
    fn default() -> Self {
        Self {
            max_inline_bytes: 1024 * 1024,
            events_max: 10_000,
            allow_media: false,
            platforms: Vec::new(),
            http: BridgeHttpSettings::default(),
        }
    }
}

pub(crate) fn parse_bridge(root: &Fields) -> BridgeSettings {
    let default = BridgeSettings::default();
    let section = root.section("bridge");
    section.warn_unknown(&[
        "max_inline_bytes",
        "events",
        "allow_media",
        "platforms",
        "http",
    ]);
    let events = section.section("events");
    events.warn_unknown(&["max"]);
    let http = section.section("http");
    http.warn_unknown(&["token", "allowed_origins", "allowed_hosts"]);
    let inline = u32::try_from(default.max_inline_bytes).unwrap_or(u32::MAX);
    BridgeSettings {
        max_inline_bytes: section
            .integer("max_inline_bytes", inline, 0)
            .try_into()
            .unwrap_or(usize::MAX),
        events_max: events.integer("max", default.events_max, MIN_EVENTS),
        allow_media: section.flag("allow_media", default.allow_media),
        platforms: section.texts_or_warn("platforms").unwrap_or_default(),
        http: BridgeHttpSettings {
            // An unresolved reference is not a secret; a warning was given.
            token: http
                .filled_text("token")
                .filter(|token| !token.is_empty() && !token.contains("${"))
                .map(Secret::new),
            allowed_origins: http.texts_or_warn("allowed_origins").unwrap_or_default(),
            allowed_hosts: http.texts_or_warn("allowed_hosts").unwrap_or_default(),
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::{Settings, Variables};

    #[test]
    fn every_key_is_read() {
        let text = "
bridge:
  max_inline_bytes: 2000
  allow_media: true
  platforms: [messaging, cli]
  events:
    max: 5000
  http:
    token: ${BRIDGE_TOKEN}
    allowed_origins: [\"https://app.example.com\"]
    allowed_hosts: bridge.example.com
";
        let variables = Variables::from_pairs([("BRIDGE_TOKEN", "s3cret")]);
        let settings = Settings::parse(text, variables).unwrap();
        assert_eq!(settings.warnings, []);
        let bridge = settings.bridge;
        assert_eq!(bridge.max_inline_bytes, 2000);
        assert_eq!(bridge.events_max, 5000);
        assert!(bridge.allow_media);
        assert_eq!(bridge.platforms, ["messaging", "cli"]);
        assert_eq!(bridge.http.token.unwrap().expose(), "s3cret");
        assert_eq!(bridge.http.allowed_origins, ["https://app.example.com"]);
        assert_eq!(bridge.http.allowed_hosts, ["bridge.example.com"]);
    }

    #[test]
    fn a_token_that_refers_to_nothing_is_none() {
        let text = "bridge:\n  http:\n    token: ${BRIDGE_TOKEN}\n";
        let settings = Settings::parse(text, Variables::default()).unwrap();
        assert_eq!(settings.bridge.http.token, None);
        assert_eq!(settings.warnings.len(), 1);
    }

    #[test]
    fn too_few_events_and_unknown_keys_are_warned_of() {
        let text = "bridge:\n  events:\n    max: 10\n  htpp: {}\n";
        let settings = Settings::parse(text, Variables::default()).unwrap();
        assert!(settings.bridge.events_max >= 1000);
        let keys: Vec<_> = settings.warnings.iter().map(|w| w.key.clone()).collect();
        assert_eq!(keys.len(), 2, "{:?}", settings.warnings);
    }
}
