//! Where a gateway conversation takes place, and the session key that follows from it.

use serde_json::{Map, Value};

use crate::SessionKey;

/// A chat and who wrote in it, as stored in `origin_json` and in the routing entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// `telegram`, `discord`, …
    pub platform: String,
    /// The chat, channel or room.
    pub chat_id: Option<String>,
    /// Its name for people.
    pub chat_name: Option<String>,
    /// `dm`, `group`, `channel`, `thread` or `forum`.
    pub chat_type: String,
    /// Who wrote.
    pub user_id: Option<String>,
    pub user_name: Option<String>,
    /// The thread or topic inside the chat.
    pub thread_id: Option<String>,
    /// The chat's topic line.
    pub chat_topic: Option<String>,
    /// A steadier id of the same person, where the platform has one.
    pub user_id_alt: Option<String>,
    /// A second id of the same chat.
    pub chat_id_alt: Option<String>,
    /// The server or workspace around the chat; also written as `guild_id`.
    pub scope_id: Option<String>,
    /// The chat a thread belongs to.
    pub parent_chat_id: Option<String>,
    /// The message that began it.
    pub message_id: Option<String>,
    /// The profile it was routed to.
    pub profile: Option<String>,
    /// Whether the bot opened the thread itself.
    pub auto_thread_created: bool,
    /// The name it gave that thread.
    pub auto_thread_initial_name: Option<String>,
}

impl Origin {
    /// Reads a stored origin. Ids written as numbers are accepted; nothing without a platform is.
    pub fn from_json(value: &Value) -> Option<Self> {
        let text = |key: &str| match value.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        Some(Self {
            platform: text("platform").filter(|platform| !platform.is_empty())?,
            chat_id: text("chat_id"),
            chat_name: text("chat_name"),
            chat_type: text("chat_type").unwrap_or_else(|| "dm".into()),
            user_id: text("user_id"),
            user_name: text("user_name"),
            thread_id: text("thread_id"),
            chat_topic: text("chat_topic"),
            user_id_alt: text("user_id_alt"),
            chat_id_alt: text("chat_id_alt"),
            scope_id: text("scope_id").or_else(|| text("guild_id")),
            parent_chat_id: text("parent_chat_id"),
            message_id: text("message_id"),
            profile: text("profile"),
            auto_thread_created: value
                .get("auto_thread_created")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
            auto_thread_initial_name: text("auto_thread_initial_name"),
        })
    }

    /// The form it is stored in.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("platform".into(), self.platform.as_str().into());
        for (key, value) in [
            ("chat_id", self.chat_id.as_deref()),
            ("chat_name", self.chat_name.as_deref()),
            ("chat_type", Some(self.chat_type.as_str())),
            ("user_id", self.user_id.as_deref()),
            ("user_name", self.user_name.as_deref()),
            ("thread_id", self.thread_id.as_deref()),
            ("chat_topic", self.chat_topic.as_deref()),
        ] {
            map.insert(key.into(), value.into());
        }
        for (key, value) in [
            ("user_id_alt", &self.user_id_alt),
            ("chat_id_alt", &self.chat_id_alt),
            ("scope_id", &self.scope_id),
            ("guild_id", &self.scope_id),
            ("parent_chat_id", &self.parent_chat_id),
            ("message_id", &self.message_id),
            ("profile", &self.profile),
            ("auto_thread_initial_name", &self.auto_thread_initial_name),
        ] {
            if let Some(value) = value {
                map.insert(key.into(), value.as_str().into());
            }
        }
        if self.auto_thread_created {
            map.insert("auto_thread_created".into(), true.into());
        }
        map.into()
    }

    /// The key of the session this chat belongs to.
    pub fn session_key(&self, policy: &SessionKeyPolicy) -> SessionKey {
        let filled = |id: &Option<String>| id.clone().filter(|id| !id.is_empty());
        let participant = filled(&self.user_id_alt).or_else(|| filled(&self.user_id));
        let chat = filled(&self.chat_id);
        let thread = filled(&self.thread_id);
        let rest = if self.chat_type == "dm" {
            // Without a chat the person keeps direct messages of several people apart.
            [chat.or(participant), thread, None]
        } else {
            let alone = match thread {
                Some(_) => policy.group_sessions_per_user && policy.thread_sessions_per_user,
                None => policy.group_sessions_per_user,
            };
            [chat, thread, participant.filter(|_| alone)]
        };
        let mut key = format!(
            "agent:{}:{}:{}",
            policy.namespace(),
            self.platform,
            self.chat_type
        );
        for part in rest.into_iter().flatten() {
            key.push(':');
            key.push_str(&part);
        }
        SessionKey::new(key)
    }
}

/// Who shares a session with whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionKeyPolicy {
    /// The profile, when several share one gateway.
    pub profile: Option<String>,
    /// `group_sessions_per_user`: everybody in a group has a session of their own.
    pub group_sessions_per_user: bool,
    /// `thread_sessions_per_user`: the same inside threads.
    pub thread_sessions_per_user: bool,
}

impl Default for SessionKeyPolicy {
    fn default() -> Self {
        Self {
            profile: None,
            group_sessions_per_user: true,
            thread_sessions_per_user: false,
        }
    }
}

impl SessionKeyPolicy {
    fn namespace(&self) -> &str {
        match self.profile.as_deref() {
            None | Some("" | "default") => "main",
            Some(profile) => profile,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(chat_type: &str, ids: [&str; 4], policy: &SessionKeyPolicy) -> String {
        let id = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let origin = Origin {
            platform: "telegram".into(),
            chat_type: chat_type.into(),
            chat_id: id(ids[0]),
            thread_id: id(ids[1]),
            user_id: id(ids[2]),
            user_id_alt: id(ids[3]),
            ..Origin::default()
        };
        origin.session_key(policy).to_string()
    }

    #[test]
    fn direct_messages_are_keyed_by_chat_then_person_then_thread() {
        let policy = SessionKeyPolicy::default();
        for (ids, expected) in [
            (["1", "", "u", ""], "agent:main:telegram:dm:1"),
            (["1", "7", "u", ""], "agent:main:telegram:dm:1:7"),
            (["", "", "u", ""], "agent:main:telegram:dm:u"),
            (["", "", "u", "alt"], "agent:main:telegram:dm:alt"),
            (["", "7", "u", ""], "agent:main:telegram:dm:u:7"),
            (["", "7", "", ""], "agent:main:telegram:dm:7"),
            (["", "", "", ""], "agent:main:telegram:dm"),
        ] {
            assert_eq!(key("dm", ids, &policy), expected, "{ids:?}");
        }
    }

    #[test]
    fn groups_are_split_by_person_and_threads_are_shared() {
        let policy = SessionKeyPolicy::default();
        for chat_type in ["group", "channel", "thread", "forum"] {
            let prefix = format!("agent:main:telegram:{chat_type}");
            assert_eq!(
                key(chat_type, ["1", "", "u", ""], &policy),
                format!("{prefix}:1:u")
            );
            assert_eq!(
                key(chat_type, ["1", "", "u", "alt"], &policy),
                format!("{prefix}:1:alt")
            );
            assert_eq!(
                key(chat_type, ["1", "7", "u", ""], &policy),
                format!("{prefix}:1:7")
            );
            assert_eq!(key(chat_type, ["", "", "", ""], &policy), prefix);
        }
    }

    #[test]
    fn the_settings_change_who_shares() {
        let shared = SessionKeyPolicy {
            group_sessions_per_user: false,
            thread_sessions_per_user: true,
            ..SessionKeyPolicy::default()
        };
        assert_eq!(
            key("group", ["1", "", "u", ""], &shared),
            "agent:main:telegram:group:1"
        );
        assert_eq!(
            key("group", ["1", "7", "u", ""], &shared),
            "agent:main:telegram:group:1:7"
        );
        let split = SessionKeyPolicy {
            thread_sessions_per_user: true,
            ..SessionKeyPolicy::default()
        };
        assert_eq!(
            key("forum", ["1", "7", "u", ""], &split),
            "agent:main:telegram:forum:1:7:u"
        );
    }

    #[test]
    fn a_profile_is_the_namespace() {
        for (profile, namespace) in [("coder", "coder"), ("default", "main"), ("", "main")] {
            let policy = SessionKeyPolicy {
                profile: Some(profile.into()),
                ..SessionKeyPolicy::default()
            };
            assert_eq!(
                key("dm", ["1", "", "", ""], &policy),
                format!("agent:{namespace}:telegram:dm:1")
            );
        }
    }

    #[test]
    fn what_is_always_there_is_written_and_the_rest_where_set() {
        let origin = Origin {
            platform: "discord".into(),
            chat_id: Some("1".into()),
            chat_type: "group".into(),
            scope_id: Some("9".into()),
            ..Origin::default()
        };
        let value = origin.to_json();
        assert_eq!(
            value,
            json!({
                "platform": "discord", "chat_id": "1", "chat_name": null, "chat_type": "group", "user_id": null,
                "user_name": null, "thread_id": null, "chat_topic": null, "scope_id": "9", "guild_id": "9",
            })
        );
        assert_eq!(Origin::from_json(&value), Some(origin));
        assert_eq!(Origin::from_json(&json!({"chat_id": "1"})), None);
        let loose = Origin::from_json(&json!({"platform": "x", "chat_id": -5})).unwrap();
        assert_eq!(loose.chat_id.as_deref(), Some("-5"));
    }
}
