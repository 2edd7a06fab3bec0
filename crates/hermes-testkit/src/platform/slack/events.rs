//! Envelopes as Slack sends them over its sockets.

use serde_json::{Value, json};

use super::workspace::{SLACK_APP, SLACK_BOT_USER, SLACK_TEAM, SlackWorkspaceState};

/// Sends an event.
pub(super) fn send_event(state: &mut SlackWorkspaceState, event: &Value) {
    let (event_id, envelope_id) = (state.next_name("Ev"), state.next_name("env-"));
    let time = event["event_ts"].as_str().unwrap_or_default();
    let time: u64 = time
        .split('.')
        .next()
        .unwrap_or("0")
        .parse()
        .unwrap_or_default();
    let envelope = json!({
        "envelope_id": envelope_id,
        "type": "events_api",
        "accepts_response_payload": false,
        "retry_attempt": 0,
        "retry_reason": "",
        "payload": {
            "token": "verification-token", "team_id": SLACK_TEAM, "api_app_id": SLACK_APP, "type": "event_callback",
            "event": event, "event_id": event_id, "event_time": time, "is_ext_shared_channel": false,
            "authorizations": [
                {"enterprise_id": null, "team_id": SLACK_TEAM, "user_id": SLACK_BOT_USER, "is_bot": true,
                 "is_enterprise_install": false},
            ],
            "event_context": format!("4-{event_id}"),
        },
    });
    state.sockets.deliver(envelope);
}

/// Sends what somebody did: a pressed button, or a command.
pub(super) fn send_interaction(state: &mut SlackWorkspaceState, kind: &str, payload: &Value) {
    let envelope = json!({
        "envelope_id": state.next_name("env-"),
        "type": kind,
        "accepts_response_payload": true,
        "payload": payload,
    });
    state.sockets.deliver(envelope);
}

/// A message was written. In a channel, whoever mentions the bot is heard twice.
pub(super) fn send_message_event(state: &mut SlackWorkspaceState, channel: &str, message: &Value) {
    let Ok(record) = state.channel(channel) else {
        return;
    };
    let kind = record.kind();
    let mut event = message.clone();
    event["channel"] = json!(channel);
    event["event_ts"] = message["ts"].clone();
    event["channel_type"] = json!(kind);
    send_event(state, &event);
    let text = message["text"].as_str().unwrap_or_default();
    let is_mention = text.contains(&format!("<@{SLACK_BOT_USER}>"));
    if is_mention && kind != "im" && message["bot_id"].is_null() {
        event["type"] = json!("app_mention");
        if let Some(event) = event.as_object_mut() {
            event.remove("channel_type");
            event.remove("subtype");
        }
        send_event(state, &event);
    }
}

pub(super) fn send_change_event(
    state: &mut SlackWorkspaceState,
    channel: &str,
    before: &Value,
    after: &Value,
) {
    let kind = state
        .channel(channel)
        .map_or("channel", |record| record.kind());
    let ts = state.next_ts(|| 0);
    let event = json!({
        "type": "message", "subtype": "message_changed", "hidden": true, "channel": channel, "channel_type": kind,
        "ts": ts, "event_ts": ts, "message": after, "previous_message": before,
    });
    send_event(state, &event);
}

pub(super) fn send_deletion_event(state: &mut SlackWorkspaceState, channel: &str, deleted: &str) {
    let kind = state
        .channel(channel)
        .map_or("channel", |record| record.kind());
    let ts = state.next_ts(|| 0);
    let event = json!({
        "type": "message", "subtype": "message_deleted", "hidden": true, "channel": channel, "channel_type": kind,
        "ts": ts, "event_ts": ts, "deleted_ts": deleted,
    });
    send_event(state, &event);
}
