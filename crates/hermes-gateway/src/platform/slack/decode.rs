//! Stored updates as events: messages, buttons, commands, and the button that stops an answer.

use serde_json::Value;

use super::{
    SlackCore,
    text::read_text,
    updates::{is_own, is_written},
};
use crate::platform::{
    Attachment, AttachmentKind, ButtonPress, ChatAddress, ChatKind, CommandCall, InboundEvent,
    InboundKind, InboundMessage, QuotedMessage, Sender,
};

/// The command under which all others can be called: some names are Slack's own.
pub(super) const UMBRELLA_COMMAND: &str = "hermes";

/// Who the bot is, for an update.
struct SlackBotIds {
    user: String,
    bot: String,
}

impl SlackCore {
    pub(super) fn decode_update(&self, update: &Value) -> Option<InboundEvent> {
        let payload = &update["payload"];
        match update["type"].as_str()? {
            "events_api" => self.decode_event(update, payload),
            "interactive" => decode_press(payload),
            "slash_commands" => decode_command(payload),
            _ => None,
        }
    }

    fn decode_event(&self, update: &Value, payload: &Value) -> Option<InboundEvent> {
        let event = &payload["event"];
        match event["type"].as_str()? {
            "message" | "app_mention" => self.decode_message(update, payload),
            "agent_session_stopped" => Some(InboundEvent {
                chat: chat_of(
                    payload,
                    event["channel"].as_str()?,
                    event["thread_ts"].as_str(),
                ),
                sender: event["user"].as_str().map(person),
                sent_at: seconds(&event["event_ts"]),
                kind: InboundKind::StopPressed,
            }),
            _ => None,
        }
    }

    /// Known from Slack, or from the update itself while it is not.
    fn bot_ids(&self, payload: &Value) -> SlackBotIds {
        match self.known_identity() {
            Some(identity) => SlackBotIds {
                user: identity.user_id,
                bot: identity.bot_id,
            },
            None => SlackBotIds {
                user: owned(&payload["authorizations"][0]["user_id"]).unwrap_or_default(),
                bot: String::new(),
            },
        }
    }

    fn decode_message(&self, update: &Value, payload: &Value) -> Option<InboundEvent> {
        let event = &payload["event"];
        let own = self.bot_ids(payload);
        if !is_written(event) || is_own(event, &own.user, &own.bot) {
            return None;
        }
        let ts = event["ts"].as_str()?;
        let thread = event["thread_ts"].as_str().filter(|thread| *thread != ts);
        let mut chat = chat_of(payload, event["channel"].as_str()?, thread);
        chat.name = owned(&update["names"]["channel"]);
        let find_name = |id: &str| self.names.known(id);
        let raw = event["text"].as_str().unwrap_or_default();
        let received = read_text(raw, &own.user, &find_name);
        let shared = read_shared(&event["attachments"], &find_name);
        let mut message = InboundMessage {
            id: ts.to_owned(),
            text: received.text,
            attachments: list(&event["files"]).iter().filter_map(read_file).collect(),
            mentions_bot: received.mentions_bot || event["type"] == "app_mention",
            ..InboundMessage::default()
        };
        match shared {
            // What is said about it is the sender's own word.
            Some(shared) if !message.text.trim().is_empty() => message.quoted = Some(shared),
            Some(shared) => {
                message.text = shared.text;
                message.forwarded_from = shared.author.or_else(|| Some("somebody".to_owned()));
            }
            None => {}
        }
        Some(InboundEvent {
            chat,
            sender: sender_of(event, update),
            sent_at: seconds(&event["ts"]),
            kind: InboundKind::Message(Box::new(message)),
        })
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

fn owned(value: &Value) -> Option<String> {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// A time of Slack's, which is seconds since 1970 and a number.
fn seconds(ts: &Value) -> Option<f64> {
    ts.as_str()?.parse().ok()
}

fn chat_of(payload: &Value, channel: &str, thread: Option<&str>) -> ChatAddress {
    let kind = if channel.starts_with('D') {
        ChatKind::Dm
    } else {
        ChatKind::Group
    };
    ChatAddress {
        thread_id: thread
            .filter(|thread| !thread.is_empty())
            .map(str::to_owned),
        scope_id: owned(&payload["team_id"]).or_else(|| owned(&payload["team"]["id"])),
        ..ChatAddress::new(channel, kind)
    }
}

fn person(id: &str) -> Sender {
    Sender {
        id: id.to_owned(),
        ..Sender::default()
    }
}

fn sender_of(event: &Value, update: &Value) -> Option<Sender> {
    let is_bot = event["subtype"] == "bot_message" || !event["bot_id"].is_null();
    let id = owned(&event["user"]).or_else(|| owned(&event["bot_id"]))?;
    let name = owned(&update["names"]["user"])
        .or_else(|| owned(&event["username"]))
        .or_else(|| owned(&event["bot_profile"]["name"]));
    Some(Sender {
        name,
        is_bot,
        ..person(&id)
    })
}

/// The messages that were shared, as one.
fn read_shared(
    attachments: &Value,
    find_name: &dyn Fn(&str) -> Option<String>,
) -> Option<QuotedMessage> {
    let mut joined: Option<QuotedMessage> = None;
    let all = list(attachments).iter();
    for shared in all.filter(|item| is_forwarded(item)) {
        let joined = joined.get_or_insert_default();
        let text = read_text(shared["text"].as_str().unwrap_or_default(), "", find_name);
        if !joined.text.is_empty() {
            joined.text.push('\n');
        }
        joined.text.push_str(&text.text);
        joined.author = owned(&shared["author_name"]).or(joined.author.take());
    }
    joined
}

/// Whether an attachment is a message that was shared, and not the preview of a link.
fn is_forwarded(attachment: &Value) -> bool {
    attachment["is_share"] == true || attachment["is_msg_unfurl"] == true
}

fn read_file(file: &Value) -> Option<Attachment> {
    let mode = file["mode"].as_str().unwrap_or_default();
    if matches!(mode, "tombstone" | "hidden_by_limit") {
        return None;
    }
    // Files of other workspaces come with their id only.
    let reference = owned(&file["url_private_download"])
        .or_else(|| owned(&file["url_private"]))
        .or_else(|| owned(&file["id"]).map(|id| format!("file:{id}")))?;
    let mime_type = owned(&file["mimetype"]);
    let family = mime_type.as_deref().unwrap_or_default();
    let kind = match file["subtype"].as_str() {
        Some("slack_audio") => AttachmentKind::Voice,
        Some("slack_video") => AttachmentKind::Video,
        _ if family.starts_with("image/") => AttachmentKind::Image,
        _ if family.starts_with("video/") => AttachmentKind::Video,
        _ if family.starts_with("audio/") => AttachmentKind::Audio,
        _ => AttachmentKind::Document,
    };
    Some(Attachment {
        kind,
        reference,
        name: owned(&file["name"]).or_else(|| owned(&file["title"])),
        mime_type,
        size: file["size"].as_u64(),
    })
}

fn decode_press(payload: &Value) -> Option<InboundEvent> {
    if payload["type"] != "block_actions" {
        return None;
    }
    let action = list(&payload["actions"]).first()?;
    // A button with an address carries nothing: the person's browser opens it.
    let data = owned(&action["value"])?;
    let container = &payload["container"];
    let channel = owned(&payload["channel"]["id"]).or_else(|| owned(&container["channel_id"]))?;
    let message_id = owned(&container["message_ts"]).or_else(|| owned(&payload["message"]["ts"]));
    let thread = owned(&container["thread_ts"])
        .or_else(|| owned(&payload["message"]["thread_ts"]))
        .filter(|thread| Some(thread) != message_id.as_ref());
    let user = &payload["user"];
    let mut chat = chat_of(payload, &channel, thread.as_deref());
    chat.name = owned(&payload["channel"]["name"]).filter(|_| !chat.is_direct());
    Some(InboundEvent {
        chat,
        sender: Some(Sender {
            name: owned(&user["name"]).or_else(|| owned(&user["username"])),
            ..person(user["id"].as_str()?)
        }),
        sent_at: seconds(&action["action_ts"]),
        kind: InboundKind::ButtonPress(ButtonPress {
            data,
            message_id,
            token: owned(&payload["trigger_id"]).unwrap_or_default(),
        }),
    })
}

fn decode_command(payload: &Value) -> Option<InboundEvent> {
    let typed = payload["command"].as_str()?.trim_start_matches('/');
    let arguments = payload["text"].as_str().unwrap_or_default().trim();
    let (name, arguments) = if typed == UMBRELLA_COMMAND {
        let (name, rest) = arguments
            .split_once(char::is_whitespace)
            .unwrap_or((arguments, ""));
        let name = name.trim_start_matches('/');
        (if name.is_empty() { "help" } else { name }, rest.trim())
    } else {
        (typed, arguments)
    };
    let mut chat = chat_of(
        payload,
        payload["channel_id"].as_str()?,
        payload["thread_ts"].as_str(),
    );
    chat.name = owned(&payload["channel_name"]).filter(|_| !chat.is_direct());
    Some(InboundEvent {
        chat,
        sender: Some(Sender {
            name: owned(&payload["user_name"]),
            ..person(payload["user_id"].as_str()?)
        }),
        sent_at: None,
        kind: InboundKind::Command(CommandCall {
            name: name.to_owned(),
            arguments: read_text(arguments, "", &|_| None).text,
            token: owned(&payload["trigger_id"]).unwrap_or_default(),
        }),
    })
}
