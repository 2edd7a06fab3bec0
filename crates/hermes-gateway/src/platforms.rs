//! Which platforms a bridge shows: messaging services, unless others are chosen.

use hermes_store::OwnPlatform;

const MESSAGING: &str = "messaging";
const ALL: &str = "all";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShownPlatforms {
    messaging: Messaging,
    own: Vec<OwnPlatform>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Messaging {
    #[default]
    Every,
    Named(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a platform")]
pub struct UnknownPlatform(pub String);

impl ShownPlatforms {
    /// What can be named besides messaging services.
    pub const WORDS: [&str; 5] = ["cli", "api", "cron", MESSAGING, ALL];

    /// The named platforms; the default if none is named.
    pub fn named(names: &[impl AsRef<str>]) -> Result<Self, UnknownPlatform> {
        let mut shown = Self {
            messaging: Messaging::Named(Vec::new()),
            own: Vec::new(),
        };
        for name in names {
            let name = name.as_ref().trim().to_ascii_lowercase();
            if name == ALL {
                return Ok(Self {
                    messaging: Messaging::Every,
                    own: OwnPlatform::ALL.to_vec(),
                });
            }
            if name.is_empty() {
                continue;
            }
            if name == MESSAGING {
                shown.messaging = Messaging::Every;
            } else if let Some(own) = OwnPlatform::named(&name) {
                shown.own.push(own);
            } else if !crate::send::is_platform(&name) {
                return Err(UnknownPlatform(name));
            } else if let Messaging::Named(named) = &mut shown.messaging {
                named.push(name);
            }
        }
        if shown.messaging == Messaging::Named(Vec::new()) && shown.own.is_empty() {
            return Ok(Self::default());
        }
        shown.own.sort_unstable();
        shown.own.dedup();
        Ok(shown)
    }

    /// The shown platforms that are not messaging services.
    pub fn own(&self) -> &[OwnPlatform] {
        &self.own
    }

    /// Whether conversations of that platform are shown.
    pub fn has(&self, platform: &str) -> bool {
        if let Some(own) = OwnPlatform::named(platform) {
            return self.own.contains(&own);
        }
        match &self.messaging {
            Messaging::Every => true,
            Messaging::Named(named) => named.iter().any(|name| name.eq_ignore_ascii_case(platform)),
        }
    }

    /// Whether the conversation of a key is shown. Chat keys have the form `agent:NAMESPACE:PLATFORM:…`; others
    /// have no platform and are always shown.
    pub fn has_key(&self, key: &str) -> bool {
        if let Some(own) = OwnPlatform::of_key(key) {
            return self.own.contains(&own);
        }
        let Messaging::Named(_) = &self.messaging else {
            return true;
        };
        let mut parts = key.split(':');
        match (parts.next(), parts.nth(1)) {
            (Some("agent"), Some(platform)) => self.has(platform),
            _ => true,
        }
    }

    pub fn is_everything(&self) -> bool {
        self.messaging == Messaging::Every && self.own.len() == OwnPlatform::ALL.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messaging_services_are_shown_unless_others_are_named() {
        let shown = |names: &[&str]| ShownPlatforms::named(names).unwrap();
        let usual = shown(&[]);
        assert_eq!(usual, ShownPlatforms::default());
        assert!(usual.has("telegram") && usual.has("one-day") && !usual.has("cli"));
        let own = shown(&["cli", "API"]);
        assert!(own.has("cli") && own.has("api") && !own.has("cron") && !own.has("slack"));
        let both = shown(&["messaging", "cli"]);
        assert!(both.has("slack") && both.has("cli") && !both.is_everything());
        let one = shown(&["Telegram"]);
        assert!(one.has("telegram") && !one.has("slack"));
        assert!(one.has_key("agent:main:telegram:dm:1") && !one.has_key("agent:main:slack:dm:1"));
        assert!(one.has_key("") && !one.has_key("cli:20260101_010101_abcdef"));
        assert!(both.has_key("cli:20260101_010101_abcdef"));
        assert!(shown(&["all"]).is_everything());
        let unknown = ShownPlatforms::named(&["telegarm"]).unwrap_err();
        assert_eq!(unknown.to_string(), "`telegarm` is not a platform");
    }
}
