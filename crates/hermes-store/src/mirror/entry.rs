//! One entry of the routing: a chat, its session and what the gateway knows about both. It never has a secret.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Origin, SessionId, SessionKey, clock};

/// Which session a chat is in.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutingEntry {
    /// The chat.
    pub session_key: SessionKey,
    pub session_id: SessionId,
    /// Local time without a zone.
    pub created_at: String,
    /// Local time without a zone.
    pub updated_at: String,
    /// Where the chat takes place.
    pub origin: Option<Origin>,
    pub details: RoutingDetails,
}

/// What an entry says besides who and where. Names are those of the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the file is shared, and these are its keys"
)]
pub struct RoutingDetails {
    /// The chat's name for people.
    pub display_name: Option<String>,
    /// The platform, known to us or not.
    pub platform: Option<String>,
    pub chat_type: Option<String>,
    /// Tokens sent.
    pub input_tokens: i64,
    /// Tokens received.
    pub output_tokens: i64,
    /// Tokens read from a provider's cache.
    pub cache_read_tokens: i64,
    /// Tokens written to a provider's cache.
    pub cache_write_tokens: i64,
    /// All of them.
    pub total_tokens: i64,
    /// The size of the last request.
    pub last_prompt_tokens: i64,
    /// What it should cost.
    pub estimated_cost_usd: f64,
    /// How sure that is.
    pub cost_status: CostStatus,
    /// Whether an expiry has been dealt with.
    #[serde(alias = "memory_flushed")]
    pub expiry_finalized: bool,
    /// Put aside by the user.
    pub suspended: bool,
    /// A turn was cut off and is to go on.
    pub resume_pending: bool,
    /// Why.
    pub resume_reason: Option<String>,
    /// Since when.
    pub last_resume_marked_at: Option<String>,
    /// Begun anew, and nothing said since.
    pub is_fresh_reset: bool,
    /// Begun anew by the clock.
    pub was_auto_reset: bool,
    /// By which rule.
    pub auto_reset_reason: Option<String>,
    /// Whether the one before had been used.
    pub reset_had_activity: bool,
    /// The bot has spoken in this thread, if only to answer a command, of which no message is stored. Ours: other programs
    /// pass over it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bot_has_spoken: bool,
    /// The model chosen for this chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_override: Option<ModelOverride>,
}

/// How sure a cost is; `unknown` unless said otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CostStatus(pub String);

impl Default for CostStatus {
    fn default() -> Self {
        Self("unknown".into())
    }
}

/// A model chosen for one chat. Keys of any other name, such as a credential, are dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelOverride {
    pub model: Option<String>,
    pub provider: Option<String>,
    /// The provider's address.
    pub base_url: Option<String>,
}

impl RoutingEntry {
    /// An entry that begins now.
    pub fn new(key: SessionKey, session: SessionId, origin: Origin) -> Self {
        let now = clock::local_iso(clock::epoch_seconds());
        Self {
            session_key: key,
            session_id: session,
            created_at: now.clone(),
            updated_at: now,
            details: RoutingDetails {
                display_name: origin.chat_name.clone(),
                platform: Some(origin.platform.clone()),
                chat_type: Some(origin.chat_type.clone()),
                ..RoutingDetails::default()
            },
            origin: Some(origin),
        }
    }

    /// Reads an entry; one without a usable session is none.
    pub(super) fn from_json(key: &SessionKey, value: &Value) -> Option<Self> {
        let Value::Object(map) = value else {
            return None;
        };
        let text = |name: &str| map.get(name).and_then(Value::as_str);
        let session_id = SessionId::parse(text("session_id")?).ok()?;
        // Which session a chat is in matters more than what else is said about it.
        let details = RoutingDetails::deserialize(value).unwrap_or_else(|error| {
            tracing::warn!(%key, %error, "routing entry has invalid details; using defaults");
            RoutingDetails::default()
        });
        Some(Self {
            session_key: key.clone(),
            session_id,
            created_at: text("created_at").unwrap_or_default().into(),
            updated_at: text("updated_at").unwrap_or_default().into(),
            origin: map.get("origin").and_then(Origin::from_json),
            details,
        })
    }

    pub(super) fn to_json(&self) -> Value {
        let mut map = serde_json::Map::new();
        map.insert("session_key".into(), self.session_key.as_str().into());
        map.insert("session_id".into(), self.session_id.as_str().into());
        map.insert("created_at".into(), self.created_at.as_str().into());
        map.insert("updated_at".into(), self.updated_at.as_str().into());
        if let Ok(Value::Object(details)) = serde_json::to_value(&self.details) {
            map.extend(details);
        }
        if let Some(origin) = &self.origin {
            map.insert("origin".into(), origin.to_json());
        }
        map.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key() -> SessionKey {
        SessionKey::new("agent:main:telegram:dm:1")
    }

    #[test]
    fn an_entry_survives_being_written() {
        let origin = Origin {
            platform: "telegram".into(),
            chat_id: Some("1".into()),
            chat_type: "dm".into(),
            ..Origin::default()
        };
        let mut entry = RoutingEntry::new(key(), SessionId::parse("20260101_x").unwrap(), origin);
        entry.details.total_tokens = 12;
        assert!(entry.to_json().get("bot_has_spoken").is_none());
        entry.details.bot_has_spoken = true;
        entry.details.model_override = Some(ModelOverride {
            model: Some("m".into()),
            ..ModelOverride::default()
        });
        let value = entry.to_json();
        assert_eq!(value["cost_status"], "unknown");
        assert_eq!(RoutingEntry::from_json(&key(), &value), Some(entry));
    }

    #[test]
    fn credentials_do_not_come_through() {
        let value = json!({
            "session_id": "s", "api_key": "secret",
            "model_override": {"model": "m", "api_key": "secret"},
        });
        let entry = RoutingEntry::from_json(&key(), &value).unwrap();
        let written = entry.to_json().to_string();
        assert!(!written.contains("secret"), "{written}");
        assert!(written.contains("\"model\":\"m\""), "{written}");
    }

    #[test]
    fn old_names_and_odd_values_are_read() {
        let value = json!({
            "session_id": "s", "memory_flushed": true, "platform": "carrier_pigeon",
            "output_tokens": 3, "origin": 7,
        });
        let entry = RoutingEntry::from_json(&key(), &value).unwrap();
        assert!(entry.details.expiry_finalized);
        assert_eq!(entry.details.platform.as_deref(), Some("carrier_pigeon"));
        assert_eq!(entry.details.output_tokens, 3);
        assert_eq!(entry.origin, None);
        let odd = json!({"session_id": "s", "input_tokens": "many"});
        let entry = RoutingEntry::from_json(&key(), &odd).unwrap();
        assert_eq!(entry.session_id.as_str(), "s");
    }

    #[test]
    fn what_has_no_safe_session_is_not_an_entry() {
        for value in [
            json!(5),
            json!({}),
            json!({"session_id": "../x"}),
            json!(null),
        ] {
            assert_eq!(RoutingEntry::from_json(&key(), &value), None, "{value}");
        }
    }
}
