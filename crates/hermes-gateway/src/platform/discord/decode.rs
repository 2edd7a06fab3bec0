//! Updates as they are stored, the event as Discord sent it with what is needed to read it later, and what they say.

use serde_json::{Value, json};

use super::{DiscordClient, attachments};
use crate::platform::{
    ButtonPress, ChatAddress, ChatKind, CommandCall, InboundEvent, InboundKind, InboundMessage,
    QuotedMessage, RawUpdate, Sender,
};

/// Messages that people write: plain ones and replies. Others are notices of Discord's own.
const WRITTEN_TYPES: [u64; 2] = [0, 19];
/// A reference that forwards instead of replying.
const FORWARD: u64 = 1;
/// Discord began counting milliseconds in 2015.
const EPOCH_MILLIS: u64 = 1_420_070_400_000;

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn decode_update(payload: &Value) -> Option<InboundEvent> {
    let event = &payload["event"];
    match payload["type"].as_str()? {
        "MESSAGE_CREATE" => decode_message(payload, event),
        "INTERACTION_CREATE" => decode_interaction(payload, event),
        _ => None,
    }
}

fn decode_message(payload: &Value, message: &Value) -> Option<InboundEvent> {
    let bot = payload["bot"]["id"].as_str().unwrap_or_default();
    let kind = message["type"].as_u64().unwrap_or_default();
    let sender = decode_sender(message, &message["author"], &message["member"])?;
    if !WRITTEN_TYPES.contains(&kind) || sender.id == bot {
        return None;
    }
    let chat = decode_chat(payload, message, &sender)?;
    let mut decoded = InboundMessage {
        id: text(&message["id"])?,
        text: readable_text(payload, message),
        attachments: attachments::decode(message),
        quoted: decode_quoted(payload, message),
        mentions_bot: mentions_bot(payload, message),
        album_id: None,
        forwarded_from: None,
    };
    if message["message_reference"]["type"] == FORWARD {
        for snapshot in list(&message["message_snapshots"]) {
            let original = &snapshot["message"];
            if !decoded.text.is_empty() {
                decoded.text.push('\n');
            }
            decoded.text.push_str(&readable_text(payload, original));
            decoded.attachments.extend(attachments::decode(original));
        }
        // Discord does not say who wrote it.
        decoded.forwarded_from = Some("somebody on Discord".into());
    }
    if decoded.text.is_empty() && decoded.attachments.is_empty() {
        decoded.text = describe_stickers(message);
    }
    Some(InboundEvent {
        chat,
        sender: Some(sender),
        sent_at: sent_at(message),
        kind: InboundKind::Message(Box::new(decoded)),
    })
}

fn describe_stickers(message: &Value) -> String {
    let names = list(&message["sticker_items"]).filter_map(|sticker| sticker["name"].as_str());
    let names: Vec<String> = names.map(|name| format!("[sticker: {name}]")).collect();
    names.join(" ")
}

fn sent_at(event: &Value) -> Option<f64> {
    let told = event["timestamp"].as_str();
    let told = told.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    #[expect(clippy::cast_precision_loss, reason = "milliseconds are below 2^53")]
    let seconds = |millis: u64| millis as f64 / 1000.0;
    told.map(|at| at.as_duration().as_secs_f64()).or_else(|| {
        // Numbers begin with the time at which they were given.
        let id: u64 = event["id"].as_str()?.parse().ok()?;
        Some(seconds((id >> 22) + EPOCH_MILLIS))
    })
}

fn decode_sender(event: &Value, user: &Value, member: &Value) -> Option<Sender> {
    let name = text(&member["nick"])
        .or_else(|| text(&user["global_name"]))
        .or_else(|| text(&user["username"]));
    Some(Sender {
        id: text(&user["id"])?,
        name,
        is_bot: user["bot"] == true || event["webhook_id"].is_string(),
        roles: list(&member["roles"]).filter_map(text).collect(),
    })
}

fn decode_chat(payload: &Value, event: &Value, sender: &Sender) -> Option<ChatAddress> {
    let place = &payload["place"];
    let id = text(&event["channel_id"])?;
    let Some(guild) = text(&event["guild_id"]) else {
        let mut chat = ChatAddress::new(id, ChatKind::Dm);
        chat.name.clone_from(&sender.name);
        return Some(chat);
    };
    let is_thread = place["type"].as_u64().is_some_and(is_thread_kind);
    let guild_name = text(&place["guild_name"]);
    let channel = if is_thread { "parent_name" } else { "name" };
    let channel = text(&place[channel]).map(|name| format!("#{name}"));
    let topic = text(&place["name"]).filter(|_| is_thread);
    let parts: Vec<String> = [guild_name, channel, topic.clone()]
        .into_iter()
        .flatten()
        .collect();
    let kind = if is_thread {
        ChatKind::Thread
    } else {
        ChatKind::Group
    };
    Some(ChatAddress {
        // As in session keys of older versions, a thread names itself twice.
        thread_id: is_thread.then(|| id.clone()),
        name: Some(parts.join(" / ")).filter(|name| !name.is_empty()),
        topic,
        scope_id: Some(guild),
        parent_id: text(&place["parent_id"]).filter(|_| is_thread),
        id,
        kind,
    })
}

pub(super) fn is_thread_kind(kind: u64) -> bool {
    (10..=12).contains(&kind)
}

fn mentions_bot(payload: &Value, message: &Value) -> bool {
    let bot = &payload["bot"];
    let is_own_role = |role: &Value| list(&bot["roles"]).any(|own| own == role);
    // A reply mentions whom it replies to by default; that is not a mention by name.
    let is_reply = message["referenced_message"]["author"]["id"] == bot["id"];
    let id = bot["id"].as_str().unwrap_or_default();
    let content = message["content"].as_str().unwrap_or_default();
    let is_written = mention_forms(id).iter().any(|form| content.contains(form));
    is_written
        || list(&message["mention_roles"]).any(is_own_role)
        || (!is_reply && list(&message["mentions"]).any(|user| user["id"] == bot["id"]))
}

fn mention_forms(user: &str) -> [String; 2] {
    [format!("<@{user}>"), format!("<@!{user}>")]
}

/// The text without mentions of the bot, and with other people by name.
fn readable_text(payload: &Value, message: &Value) -> String {
    let mut content = message["content"].as_str().unwrap_or_default().to_owned();
    if !content.contains("<@") {
        return content;
    }
    let bot = &payload["bot"];
    if let Some(id) = bot["id"].as_str() {
        for form in mention_forms(id) {
            content = content.replace(&form, "");
        }
    }
    for role in list(&bot["roles"]).filter_map(|role| role.as_str()) {
        content = content.replace(&format!("<@&{role}>"), "");
    }
    for user in list(&message["mentions"]) {
        let name = text(&user["member"]["nick"])
            .or_else(|| text(&user["global_name"]))
            .or_else(|| text(&user["username"]));
        if let (Some(id), Some(name)) = (user["id"].as_str(), name) {
            for form in mention_forms(id) {
                content = content.replace(&form, &format!("@{name}"));
            }
        }
    }
    content.trim().to_owned()
}

fn decode_quoted(payload: &Value, message: &Value) -> Option<QuotedMessage> {
    let reference = &message["message_reference"];
    if reference["type"] == FORWARD {
        return None;
    }
    let id = text(&reference["message_id"])?;
    let original = &message["referenced_message"];
    let author = &original["author"];
    Some(QuotedMessage {
        id,
        text: readable_text(payload, original),
        is_from_bot: author["id"].is_string() && author["id"] == payload["bot"]["id"],
        author: text(&author["global_name"]).or_else(|| text(&author["username"])),
    })
}

fn decode_interaction(payload: &Value, event: &Value) -> Option<InboundEvent> {
    let member = &event["member"];
    let user = if member.is_object() {
        &member["user"]
    } else {
        &event["user"]
    };
    let sender = decode_sender(event, user, member)?;
    let chat = decode_chat(payload, event, &sender)?;
    let token = format!(
        "{}:{}:{}",
        event["id"].as_str()?,
        event["application_id"].as_str().unwrap_or_default(),
        event["token"].as_str()?
    );
    let data = &event["data"];
    let kind = match event["type"].as_u64()? {
        2 => InboundKind::Command(CommandCall {
            name: text(&data["name"])?,
            arguments: decode_options(&data["options"]),
            token,
        }),
        3 => InboundKind::ButtonPress(ButtonPress {
            data: text(&data["custom_id"])?,
            message_id: text(&event["message"]["id"]),
            token,
        }),
        _ => return None,
    };
    Some(InboundEvent {
        chat,
        sender: Some(sender),
        sent_at: sent_at(event),
        kind,
    })
}

/// The values of a command's options, as they would be typed.
fn decode_options(options: &Value) -> String {
    let values = list(options).filter_map(|option| match &option["value"] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    });
    values.collect::<Vec<_>>().join(" ")
}

/// An update of an event, `None` for the bot's own messages.
pub(super) async fn build_update(
    client: &DiscordClient,
    name: &str,
    event: Value,
) -> Option<RawUpdate> {
    let identity = client.identity();
    if event["author"]["id"] == identity.bot.as_str() {
        return None;
    }
    let event_id = event["id"].as_str()?.to_owned();
    let place = client.places.describe(&client.rest, &event).await;
    let roles = client
        .places
        .bot_roles(&client.rest, &event, &identity.bot)
        .await;
    let payload = json!({
        "type": name,
        "event": event,
        "place": place,
        "bot": {"id": identity.bot, "application_id": identity.application, "roles": roles},
    });
    Some(RawUpdate { event_id, payload })
}
