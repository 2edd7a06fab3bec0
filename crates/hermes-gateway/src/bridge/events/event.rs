//! One event and its JSON form.

use hermes_store::runtime::LoggedEvent;
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

/// A position in the log, counted from 1 without gaps.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Cursor(pub u64);

impl Cursor {
    pub(super) fn from_stored(cursor: i64) -> Self {
        Self(u64::try_from(cursor).unwrap_or_default())
    }

    pub(super) fn into_stored(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ConversationEvent {
    pub cursor: Cursor,
    pub kind: EventKind,
    /// The chat; empty if there is none.
    pub session_key: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    Message {
        /// `user` or `assistant`.
        role: String,
        /// At most the first 500 characters.
        content: String,
        /// Seconds since 1970.
        timestamp: String,
        /// The row in the store.
        message_id: String,
    },
    ApprovalRequested {
        approval_id: String,
        /// `exec`, `mcp` or `plugin`.
        kind: String,
        command: String,
        description: String,
        /// UTC.
        created_at: String,
        /// UTC.
        expires_at: Option<String>,
    },
    /// An approval was decided, or expired.
    ApprovalResolved {
        approval_id: String,
        /// `allow-once`, `allow-session`, `allow-always`, `deny`, `expired` or `cancelled`.
        decision: String,
    },
}

impl ConversationEvent {
    fn from_logged(logged: LoggedEvent) -> Option<Self> {
        let Value::Object(mut payload) = logged.payload else {
            return None;
        };
        payload.insert("type".into(), logged.kind.into());
        Some(Self {
            cursor: Cursor::from_stored(logged.cursor),
            kind: serde_json::from_value(payload.into()).ok()?,
            session_key: logged
                .session_key
                .map(|key| key.as_str().to_owned())
                .unwrap_or_default(),
        })
    }
}

/// Parses logged events. Unknown kinds, of a newer program, are ignored.
pub(super) fn parse_events(logged: Vec<LoggedEvent>) -> Vec<ConversationEvent> {
    logged
        .into_iter()
        .filter_map(ConversationEvent::from_logged)
        .collect()
}

impl Serialize for ConversationEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = serde_json::to_value(&self.kind).map_err(serde::ser::Error::custom)?;
        let mut payload = match kind {
            Value::Object(payload) => payload,
            _ => Map::new(),
        };
        let kind = payload.shift_remove("type");
        let mut map = serializer.serialize_map(Some(payload.len() + 3))?;
        map.serialize_entry("cursor", &self.cursor)?;
        map.serialize_entry("type", &kind)?;
        map.serialize_entry("session_key", &self.session_key)?;
        for (key, value) in &payload {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use hermes_store::SessionKey;
    use serde_json::json;

    use super::*;

    fn logged(kind: &str, payload: Value) -> LoggedEvent {
        LoggedEvent {
            cursor: 42,
            kind: kind.into(),
            session_key: Some(SessionKey::new("agent:main:telegram:dm:123456")),
            payload,
        }
    }

    #[test]
    fn a_message_is_one_flat_object() {
        let payload = json!({"role": "user", "content": "deploy?", "timestamp": "1794708121.81", "message_id": "6"});
        let event = ConversationEvent::from_logged(logged("message", payload)).unwrap();
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"cursor":42,"type":"message","session_key":"agent:main:telegram:dm:123456","role":"user","content":"deploy?","timestamp":"1794708121.81","message_id":"6"}"#
        );
    }

    #[test]
    fn an_approval_keeps_its_own_kind_beside_the_type() {
        let payload = json!({"approval_id": "a", "kind": "exec", "command": "ls", "description": "d",
            "created_at": "2026-11-15T02:01:02.000000Z", "expires_at": null});
        let event = ConversationEvent::from_logged(logged("approval_requested", payload)).unwrap();
        let shown = serde_json::to_value(&event).unwrap();
        assert_eq!(shown["type"], "approval_requested");
        assert_eq!(shown["kind"], "exec");
        assert_eq!(shown["expires_at"], Value::Null);
    }

    #[test]
    fn a_kind_of_a_newer_program_is_passed_over() {
        let known = json!({"approval_id": "a", "decision": "deny"});
        let events = vec![
            logged("approval_resolved", known),
            logged("reaction", json!({})),
        ];
        assert_eq!(parse_events(events).len(), 1);
    }
}
