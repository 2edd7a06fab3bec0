//! What an update says.

use serde_json::Value;

use super::{
    super::{
        ButtonPress, ChatAddress, ChatKind, InboundEvent, InboundKind, InboundMessage,
        QuotedMessage, Sender,
    },
    attachments,
    identity::BotIdentity,
    text::{byte_position, utf16_slice},
};

/// The topic of a forum that messages do not name.
pub(super) const GENERAL_TOPIC: &str = "1";

pub(super) fn decode_update(update: &Value, bot: &BotIdentity) -> Option<InboundEvent> {
    if let Some(message) = update.get("message") {
        decode_message(message, bot)
    } else if let Some(post) = update.get("channel_post") {
        decode_message(post, bot)
    } else if let Some(query) = update.get("callback_query") {
        decode_button(query)
    } else if let Some(stopped) = update.get("stopped_message_generation") {
        decode_stop(stopped)
    } else {
        // Edits, members, reactions, polls, and what is invented later.
        None
    }
}

fn decode_message(message: &Value, bot: &BotIdentity) -> Option<InboundEvent> {
    let chat = decode_chat(message)?;
    let event = |kind| InboundEvent {
        chat: chat.clone(),
        sender: decode_sender(message),
        sent_at: message["date"].as_f64(),
        kind,
    };
    if let Some(new_id) = message["migrate_to_chat_id"].as_i64() {
        let new_id = new_id.to_string();
        return Some(event(InboundKind::ChatMigrated { new_id }));
    }
    let words = MessageWords::read(message, bot)?;
    let attachments = attachments::read_attachments(message);
    let text = match words.text {
        text if text.is_empty() => attachments::describe_other(message).unwrap_or_default(),
        text => text,
    };
    if text.is_empty() && attachments.is_empty() && !words.mentions_bot {
        // Somebody joined, a message was pinned, and the like.
        return None;
    }
    Some(event(InboundKind::Message(Box::new(InboundMessage {
        id: number(&message["message_id"])?,
        text,
        attachments,
        quoted: decode_quote(message, bot),
        mentions_bot: words.mentions_bot,
        album_id: text_of(&message["media_group_id"]),
        forwarded_from: decode_origin(&message["forward_origin"]),
    }))))
}

fn decode_button(query: &Value) -> Option<InboundEvent> {
    let message = &query["message"];
    Some(InboundEvent {
        chat: decode_chat(message)?,
        sender: Some(decode_user(&query["from"])?),
        sent_at: None,
        kind: InboundKind::ButtonPress(ButtonPress {
            data: text_of(&query["data"])?,
            message_id: number(&message["message_id"]),
            token: text_of(&query["id"])?,
        }),
    })
}

/// The draft whose Stop was pressed, if an update says that.
pub(super) fn stopped_draft(update: &Value) -> Option<i64> {
    update["stopped_message_generation"]["draft_id"].as_i64()
}

fn decode_stop(stopped: &Value) -> Option<InboundEvent> {
    let mut chat = decode_chat(stopped)?;
    // Drafts exist only in private chats, whose topics are named without further ado.
    chat.thread_id = number(&stopped["message_thread_id"]);
    Some(InboundEvent {
        sender: Some(Sender {
            id: chat.id.clone(),
            name: chat.name.clone(),
            ..Sender::default()
        }),
        chat,
        sent_at: None,
        kind: InboundKind::StopPressed,
    })
}

/// The chat of a message, with its topic.
fn decode_chat(message: &Value) -> Option<ChatAddress> {
    let chat = &message["chat"];
    let is_forum = chat["is_forum"] == true;
    let kind = match chat["type"].as_str()? {
        "private" => ChatKind::Dm,
        "channel" => ChatKind::Channel,
        "supergroup" if is_forum => ChatKind::Forum,
        _ => ChatKind::Group,
    };
    let mut address = ChatAddress::new(number(&chat["id"])?, kind);
    address.name = text_of(&chat["title"]).or_else(|| full_name(chat));
    // Replies have a thread, too; only topics say that they are one.
    if message["is_topic_message"] == true {
        address.thread_id = number(&message["message_thread_id"]);
    }
    if address.thread_id.is_none() && kind == ChatKind::Forum {
        address.thread_id = Some(GENERAL_TOPIC.to_owned());
    }
    address.topic = text_of(&message["reply_to_message"]["forum_topic_created"]["name"]);
    Some(address)
}

/// Who wrote it: an account, or the chat that somebody writes for.
fn decode_sender(message: &Value) -> Option<Sender> {
    if message["chat"]["type"] == "channel" {
        return None;
    }
    let chat = &message["sender_chat"];
    if let Some(id) = number(&chat["id"]) {
        return Some(Sender {
            id,
            name: text_of(&chat["title"]),
            ..Sender::default()
        });
    }
    decode_user(&message["from"])
}

fn decode_user(user: &Value) -> Option<Sender> {
    Some(Sender {
        id: number(&user["id"])?,
        name: full_name(user),
        is_bot: user["is_bot"] == true,
        roles: Vec::new(),
    })
}

fn full_name(user: &Value) -> Option<String> {
    let first = user["first_name"].as_str().unwrap_or_default();
    let last = user["last_name"].as_str().unwrap_or_default();
    let name = format!("{first} {last}").trim().to_owned();
    if name.is_empty() {
        return text_of(&user["username"]);
    }
    Some(name)
}

fn decode_quote(message: &Value, bot: &BotIdentity) -> Option<QuotedMessage> {
    let replied = message.get("reply_to_message")?;
    // Every message of a topic replies to the topic's beginning.
    if replied.get("forum_topic_created").is_some() {
        return None;
    }
    let chosen = text_of(&message["quote"]["text"]);
    let text = chosen
        .or_else(|| text_of(&replied["text"]))
        .or_else(|| text_of(&replied["caption"]))
        .or_else(|| attachments::rich_plain_text(&replied["rich_message"]));
    Some(QuotedMessage {
        id: number(&replied["message_id"])?,
        text: text.unwrap_or_default(),
        is_from_bot: bot.is_account(&replied["from"]),
        author: full_name(&replied["from"]),
    })
}

/// Who wrote a forwarded message first.
fn decode_origin(origin: &Value) -> Option<String> {
    let name = match origin["type"].as_str()? {
        "user" => full_name(&origin["sender_user"]),
        "hidden_user" => text_of(&origin["sender_user_name"]),
        "chat" => text_of(&origin["sender_chat"]["title"]),
        "channel" => text_of(&origin["chat"]["title"]),
        _ => None,
    };
    Some(name.unwrap_or_else(|| "somebody".to_owned()))
}

/// The words of a message, without the mention of the bot.
struct MessageWords {
    text: String,
    mentions_bot: bool,
}

impl MessageWords {
    /// `None` for a command that names another bot.
    fn read(message: &Value, bot: &BotIdentity) -> Option<Self> {
        let (text, entities) = match message["text"].as_str() {
            Some(text) => (text, &message["entities"]),
            None => (
                message["caption"].as_str().unwrap_or_default(),
                &message["caption_entities"],
            ),
        };
        let mut mentions_bot = false;
        let mut taken = Vec::new();
        for entity in entities.as_array().into_iter().flatten() {
            let position = |name: &str| entity[name].as_u64().and_then(|n| usize::try_from(n).ok());
            let (Some(offset), Some(length)) = (position("offset"), position("length")) else {
                continue;
            };
            let words = utf16_slice(text, offset, length);
            let start = byte_position(text, offset);
            let range = start..start + words.len();
            match entity["type"].as_str().unwrap_or_default() {
                "mention" if bot.is_named(words) => {
                    mentions_bot = true;
                    taken.push(range);
                }
                "text_mention" if bot.is_account(&entity["user"]) => {
                    mentions_bot = true;
                    taken.push(range);
                }
                "bot_command" => {
                    let Some((command, name)) = words.split_once('@') else {
                        continue;
                    };
                    if bot.is_named(name) {
                        mentions_bot = true;
                        taken.push(range.start + command.len()..range.end);
                    } else if offset == 0 && bot.username.is_some() {
                        return None;
                    }
                }
                _ => {}
            }
        }
        Some(Self {
            text: remove_ranges(text, &taken),
            mentions_bot,
        })
    }
}

/// The text without these ranges, and without the spaces that they leave.
fn remove_ranges(text: &str, ranges: &[std::ops::Range<usize>]) -> String {
    if ranges.is_empty() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for range in ranges {
        if range.start < from {
            continue;
        }
        out.push_str(&text[from..range.start]);
        from = range.end;
        if out.is_empty() || out.ends_with(char::is_whitespace) {
            let rest = &text[from..];
            let spaces = rest.len() - rest.trim_start_matches([' ', ',', ':']).len();
            from += spaces;
        }
    }
    out.push_str(&text[from..]);
    out.trim().to_owned()
}

fn number(value: &Value) -> Option<String> {
    value.as_i64().map(|number| number.to_string())
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;
