//! The names of things: sessions, messages and the keys that route a chat to its session.

use std::fmt;

use hermes_config::random::random_digits;
use jiff::Zoned;

/// Names one conversation. Safe as part of a file name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

/// The id could lead out of a directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{id}` is not a session id")]
pub struct BadSessionId {
    pub id: String,
}

impl SessionId {
    /// Accepts any id that could not lead out of a directory.
    pub fn parse(text: &str) -> Result<Self, BadSessionId> {
        let drive = text.as_bytes().get(1) == Some(&b':')
            && text.starts_with(|first: char| first.is_ascii_alphabetic());
        if text.is_empty()
            || drive
            || text.contains("..")
            || text.contains(['/', '\\'])
            || text.contains(char::is_control)
        {
            return Err(BadSessionId { id: text.into() });
        }
        Ok(Self(text.into()))
    }

    /// A new id of the command line, `YYYYMMDD_HHMMSS_<6 hex>`.
    pub fn for_cli(now: &Zoned) -> Self {
        Self(format!("{}_{}", format_stamp(now), random_digits(6)))
    }

    /// A new id of the gateway, `YYYYMMDD_HHMMSS_<8 hex>`.
    pub fn for_gateway(now: &Zoned) -> Self {
        Self(format!("{}_{}", format_stamp(now), random_digits(8)))
    }

    /// The id of a cron job's run, `cron_<job>_YYYYMMDD_HHMMSS`.
    pub fn for_cron(job: &str, now: &Zoned) -> Result<Self, BadSessionId> {
        Self::parse(&format!("cron_{job}_{}", format_stamp(now)))
    }

    /// An id read from a database, which is taken as it is.
    pub(crate) fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn format_stamp(now: &Zoned) -> String {
    now.strftime("%Y%m%d_%H%M%S").to_string()
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names one row of the message table. Ids grow in the order of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub i64);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Routes a chat to its session. Opaque once built: compared, never taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey(String);

impl SessionKey {
    /// A key that was built before, such as one read from a file.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same key for a chat whose id has changed; `None` if it is the key of another chat.
    pub fn with_chat_id(&self, platform: &str, old: &str, new: &str) -> Option<Self> {
        // agent:<namespace>:<platform>:<kind>:<chat>…
        let mut parts: Vec<&str> = self.0.split(':').collect();
        if parts.first() != Some(&"agent") || parts.get(2) != Some(&platform) {
            return None;
        }
        let chat = parts.get_mut(4).filter(|chat| **chat == old)?;
        *chat = new;
        Some(Self(parts.join(":")))
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_leave_a_directory_are_refused() {
        for bad in ["", "..", "a..b", "a/b", "a\\b", "C:x", "c:", "a\0b", "a\nb"] {
            assert!(SessionId::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["20260101_010101_abcdef", "cron_job_123_x", "ä", "1:2", "x"] {
            assert_eq!(SessionId::parse(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_key_follows_its_chat_to_another_id() {
        let moved = |key: &str| {
            let moved = SessionKey::new(key).with_chat_id("telegram", "-5", "-1005");
            moved.map(|key| key.to_string())
        };
        for (key, expected) in [
            (
                "agent:main:telegram:group:-5",
                Some("agent:main:telegram:group:-1005"),
            ),
            (
                "agent:x:telegram:group:-5:7:u",
                Some("agent:x:telegram:group:-1005:7:u"),
            ),
            ("agent:main:telegram:group:-55", None),
            ("agent:main:telegram:group:1:-5", None),
            ("agent:main:telegram@work:group:-5", None),
            ("cli:-5", None),
        ] {
            assert_eq!(moved(key).as_deref(), expected, "{key}");
        }
    }

    #[test]
    fn new_ids_carry_the_local_time_of_their_zone() {
        let now: Zoned = "2026-03-04T05:06:07[Asia/Tokyo]".parse().unwrap();
        let cli = SessionId::for_cli(&now);
        assert!(cli.as_str().starts_with("20260304_050607_"), "{cli}");
        assert_eq!(cli.as_str().len(), 22);
        assert_eq!(SessionId::for_gateway(&now).as_str().len(), 24);
        assert_eq!(
            SessionId::for_cron("job_123", &now).unwrap().as_str(),
            "cron_job_123_20260304_050607"
        );
        assert!(SessionId::for_cron("../x", &now).is_err());
    }
}
