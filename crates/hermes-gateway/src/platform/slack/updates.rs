//! Envelopes of Socket Mode as updates: what is stored of them, and the id under which they are known.

use serde_json::{Value, json};

use super::identity::SlackIdentity;
use crate::platform::RawUpdate;

/// What becomes of an envelope.
#[derive(Debug, PartialEq)]
pub(super) enum SlackEnvelopeUse {
    Store(RawUpdate),
    /// Nothing that anybody waits for: our own messages, and changes of messages, which come with every edit.
    Ignore,
}

/// Subtypes of messages that somebody wrote.
const WRITTEN_SUBTYPES: [&str; 4] = [
    "file_share",
    "thread_broadcast",
    "bot_message",
    "me_message",
];

/// Whether a message event is something that somebody wrote.
pub(super) fn is_written(event: &Value) -> bool {
    match event["subtype"].as_str() {
        None => true,
        Some(subtype) => WRITTEN_SUBTYPES.contains(&subtype),
    }
}

/// Whether an event is the bot's own doing.
pub(super) fn is_own(event: &Value, bot_user: &str, bot_id: &str) -> bool {
    let is = |member: &str, id: &str| !id.is_empty() && event[member] == id;
    is("user", bot_user) || is("bot_id", bot_id)
}

pub(super) fn classify_envelope(envelope: &Value, identity: &SlackIdentity) -> SlackEnvelopeUse {
    let kind = envelope["type"].as_str().unwrap_or_default();
    let payload = &envelope["payload"];
    let event = &payload["event"];
    let is_message =
        kind == "events_api" && matches!(event["type"].as_str(), Some("message" | "app_mention"));
    if is_message && (!is_written(event) || is_own(event, &identity.user_id, &identity.bot_id)) {
        return SlackEnvelopeUse::Ignore;
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let event_id = match kind {
        // A mention comes as two events with ids of their own: they are one message.
        "events_api" if is_message => message_event_id(event),
        "events_api" => text(&payload["event_id"]),
        "interactive" => {
            let action = text(&payload["actions"][0]["action_ts"]);
            let trigger = text(&payload["trigger_id"]).or(action);
            trigger.map(|id| format!("act:{id}"))
        }
        "slash_commands" => text(&payload["trigger_id"]).map(|id| format!("cmd:{id}")),
        _ => None,
    };
    let event_id =
        event_id.or_else(|| text(&envelope["envelope_id"]).map(|id| format!("env:{id}")));
    let mut payload = payload.clone();
    if let Some(members) = payload.as_object_mut() {
        // Secrets of the app that nothing needs later.
        members.remove("token");
        members.remove("response_url");
        members.remove("response_urls");
    }
    SlackEnvelopeUse::Store(RawUpdate {
        event_id: event_id.unwrap_or_default(),
        payload: json!({"type": kind, "payload": payload}),
    })
}

/// The id of a message, however it is heard of.
pub(super) fn message_event_id(event: &Value) -> Option<String> {
    let (channel, ts) = (event["channel"].as_str()?, event["ts"].as_str()?);
    Some(format!("msg:{channel}:{ts}"))
}

/// A message of a channel's history, in the form of an event.
pub(super) fn update_from_history(
    channel: &str,
    message: &Value,
    identity: &SlackIdentity,
) -> Option<RawUpdate> {
    let mut event = message.clone();
    event["type"] = json!("message");
    event["channel"] = json!(channel);
    if !is_written(&event) || is_own(&event, &identity.user_id, &identity.bot_id) {
        return None;
    }
    Some(RawUpdate {
        event_id: message_event_id(&event)?,
        payload: json!({
            "type": "events_api",
            "payload": {
                "type": "event_callback", "team_id": identity.team_id, "event": event,
                "authorizations": [{"team_id": identity.team_id, "user_id": identity.user_id, "is_bot": true}],
            },
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> SlackIdentity {
        SlackIdentity {
            user_id: "UBOT".into(),
            bot_id: "BBOT".into(),
            team_id: "T".into(),
            scopes: None,
        }
    }

    fn envelope(event: &Value) -> Value {
        json!({"type": "events_api", "envelope_id": "e1", "payload": {"event_id": "Ev1", "event": event}})
    }

    fn id_of(envelope: &Value) -> Option<String> {
        match classify_envelope(envelope, &identity()) {
            SlackEnvelopeUse::Store(update) => Some(update.event_id),
            SlackEnvelopeUse::Ignore => None,
        }
    }

    #[test]
    fn a_mention_and_its_message_are_one() {
        let mut event = json!({"type": "message", "channel": "C1", "ts": "1.2", "user": "U1", "text": "<@UBOT> x"});
        assert_eq!(id_of(&envelope(&event)).unwrap(), "msg:C1:1.2");
        event["type"] = json!("app_mention");
        assert_eq!(id_of(&envelope(&event)).unwrap(), "msg:C1:1.2");
        event["subtype"] = json!("message_changed");
        assert_eq!(id_of(&envelope(&event)), None);
    }

    #[test]
    fn what_the_bot_writes_is_not_an_update() {
        for member in [("user", "UBOT"), ("bot_id", "BBOT")] {
            let mut event = json!({"type": "message", "channel": "C1", "ts": "1.2"});
            event[member.0] = json!(member.1);
            assert_eq!(id_of(&envelope(&event)), None, "{member:?}");
        }
    }

    #[test]
    fn other_envelopes_have_the_id_of_what_happened() {
        let reaction = json!({"type": "reaction_added"});
        assert_eq!(id_of(&envelope(&reaction)).unwrap(), "Ev1");
        let press = json!({"type": "interactive", "envelope_id": "e", "payload":
            {"token": "secret", "response_url": "secret", "trigger_id": "t1"}});
        assert_eq!(id_of(&press).unwrap(), "act:t1");
        let SlackEnvelopeUse::Store(update) = classify_envelope(&press, &identity()) else {
            panic!("{press}");
        };
        assert!(!update.payload.to_string().contains("secret"));
        let unknown = json!({"type": "news_of_2030", "envelope_id": "e9", "payload": 7});
        assert_eq!(id_of(&unknown).unwrap(), "env:e9");
    }
}
