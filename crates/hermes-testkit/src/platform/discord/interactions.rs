//! Application commands, and what happens after a button was pressed or a command used.

use std::time::Instant;

use serde_json::{Value, json};

use super::{
    messages::{self, MessageDraft, payload, rest_value, unknown_message},
    reply::{DiscordRefusal, DiscordResult},
    world::DiscordData,
};
use crate::platform::{PlatformRequest, server::PlatformState};

/// Only whoever did it sees the reply.
const EPHEMERAL: u64 = 1 << 6;

pub(super) struct InteractionRecord {
    pub(super) id: String,
    pub(super) channel: String,
    pub(super) made_at: Instant,
    /// The type of the first reply.
    pub(super) callback: Option<u64>,
    /// The message that the button belongs to.
    pub(super) source: Option<String>,
    /// The first reply, if it is a message in the channel.
    pub(super) reply: Option<String>,
    /// Replies that only one person sees.
    pub(super) ephemeral: Vec<Value>,
    /// What the first reply will be: `true` after a deferred ephemeral one.
    pub(super) is_ephemeral: bool,
}

/// `PUT /applications/{id}/commands`: replaces all of them.
pub(super) fn put_commands(
    server: &PlatformState,
    data: &mut DiscordData,
    request: &PlatformRequest,
) -> DiscordResult {
    let Some(commands) = request.body.as_array() else {
        return Err(DiscordRefusal::new(400, 50035, "Invalid Form Body"));
    };
    if commands.len() > 100 {
        let reason = "Maximum number of application commands reached (100).";
        return Err(DiscordRefusal::new(400, 30032, reason));
    }
    let mut known = Vec::new();
    for command in commands {
        check_command(command)?;
        let mut command = command.clone();
        command["id"] = json!(server.next_id().to_string());
        command["application_id"] = data.application["id"].clone();
        command["version"] = json!("1");
        if command["type"].is_null() {
            command["type"] = json!(1);
        }
        for (key, value) in [
            ("default_member_permissions", Value::Null),
            ("nsfw", json!(false)),
        ] {
            if command[key].is_null() {
                command[key] = value;
            }
        }
        known.push(command);
    }
    data.commands.clone_from(&known);
    Ok((200, known.into()))
}

fn check_command(command: &Value) -> Result<(), DiscordRefusal> {
    let name = command["name"].as_str().unwrap_or_default();
    let is_sign =
        |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || "-_".contains(sign);
    if !(1..=32).contains(&name.chars().count()) || !name.chars().all(is_sign) {
        let reason = "Command name is invalid";
        return Err(DiscordRefusal::invalid(
            "name",
            "APPLICATION_COMMAND_INVALID_NAME",
            reason,
        ));
    }
    let described = command["description"].as_str().unwrap_or_default();
    if !(1..=100).contains(&described.chars().count()) {
        let reason = "Must be between 1 and 100 in length.";
        return Err(DiscordRefusal::invalid(
            "description",
            "BASE_TYPE_BAD_LENGTH",
            reason,
        ));
    }
    for option in command["options"].as_array().into_iter().flatten() {
        check_command(option)?;
    }
    Ok(())
}

/// `POST /interactions/{id}/{token}/callback`.
pub(super) fn call_back(
    server: &PlatformState,
    data: &mut DiscordData,
    (id, token): (&str, &str),
    request: &PlatformRequest,
) -> DiscordResult {
    let timeout = data.interaction_timeout;
    let known = data.interactions.get(token);
    let Some(known) = known.filter(|known| known.id == id) else {
        return Err(DiscordRefusal::unknown(10062, "interaction"));
    };
    if known.callback.is_some() {
        let reason = "Interaction has already been acknowledged.";
        return Err(DiscordRefusal::new(400, 40060, reason));
    }
    if known.made_at.elapsed() > timeout {
        return Err(DiscordRefusal::unknown(10062, "interaction"));
    }
    let (channel, source) = (known.channel.clone(), known.source.clone());
    let body = payload(request);
    let kind = body["type"].as_u64().unwrap_or_default();
    let content = &body["data"];
    let is_ephemeral = content["flags"].as_u64().unwrap_or_default() & EPHEMERAL != 0;
    let mut reply = None;
    let mut ephemeral = Vec::new();
    match kind {
        4 => {
            let message = messages::build(
                server,
                data,
                &MessageDraft::new(server, &channel, content, &request.files),
            )?;
            if is_ephemeral {
                ephemeral.push(message);
            } else {
                reply = message["id"].as_str().map(str::to_owned);
                messages::add(data, &channel, &message);
            }
        }
        5 | 6 => {}
        7 => {
            let Some(source) = &source else {
                return Err(DiscordRefusal::new(400, 50035, "Invalid Form Body"));
            };
            change(data, &channel, source, content)?;
        }
        _ => return Err(DiscordRefusal::new(400, 50035, "Invalid Form Body")),
    }
    if let Some(known) = data.interactions.get_mut(token) {
        known.callback = Some(kind);
        known.reply = reply.or(source.filter(|_| matches!(kind, 6 | 7)));
        known.is_ephemeral = is_ephemeral;
        known.ephemeral.extend(ephemeral.clone());
    }
    if !request.query.contains("with_response") {
        return Ok((204, Value::Null));
    }
    let known = &data.interactions[token];
    let shown = ephemeral.pop().or_else(|| {
        let record = data.channels.get(&channel)?;
        record.message(known.reply.as_ref()?).cloned()
    });
    let mut interaction = json!({
        "id": id, "type": if known.source.is_some() { 3 } else { 2 }, "response_message_loading": kind == 5,
        "response_message_ephemeral": is_ephemeral,
    });
    if let Some(message) = &shown {
        interaction["response_message_id"] = message["id"].clone();
    }
    let mut resource = json!({"type": kind});
    if let Some(message) = shown.filter(|_| matches!(kind, 4 | 7)) {
        resource["message"] = rest_value(&message);
    }
    Ok((
        200,
        json!({"interaction": interaction, "resource": resource}),
    ))
}

/// Changes a message of the bot.
fn change(
    data: &mut DiscordData,
    channel: &str,
    id: &str,
    content: &Value,
) -> Result<Value, DiscordRefusal> {
    messages::check_components(&content["components"])?;
    let record = messages::find(data, channel, id)?;
    let message = record.message_mut(id).ok_or_else(unknown_message)?;
    for key in ["content", "components", "embeds"] {
        if !content[key].is_null() {
            message[key] = content[key].clone();
        }
    }
    let changed = message.clone();
    data.gateway.dispatch("MESSAGE_UPDATE", &changed);
    Ok(rest_value(&changed))
}

fn find<'d>(
    data: &'d mut DiscordData,
    token: &str,
) -> Result<&'d mut InteractionRecord, DiscordRefusal> {
    let known = data.interactions.get_mut(token);
    known
        .filter(|known| known.callback.is_some())
        .ok_or_else(|| DiscordRefusal::unknown(10015, "Webhook"))
}

/// `POST /webhooks/{application}/{token}`: one more message.
pub(super) fn follow_up(
    server: &PlatformState,
    data: &mut DiscordData,
    token: &str,
    request: &PlatformRequest,
) -> DiscordResult {
    let channel = find(data, token)?.channel.clone();
    let body = payload(request);
    let message = messages::build(
        server,
        data,
        &MessageDraft::new(server, &channel, &body, &request.files),
    )?;
    if body["flags"].as_u64().unwrap_or_default() & EPHEMERAL != 0 {
        find(data, token)?.ephemeral.push(message.clone());
    } else {
        messages::add(data, &channel, &message);
    }
    Ok((200, rest_value(&message)))
}

/// The message that `@original` or a number means.
enum ReplyMessage {
    Channel(String, String),
    Ephemeral(usize),
    /// A deferred reply that has no text yet.
    Deferred,
}

fn place(data: &mut DiscordData, token: &str, id: &str) -> Result<ReplyMessage, DiscordRefusal> {
    let known = find(data, token)?;
    if id != "@original" {
        if let Some(index) = known
            .ephemeral
            .iter()
            .position(|message| message["id"] == id)
        {
            return Ok(ReplyMessage::Ephemeral(index));
        }
        return Ok(ReplyMessage::Channel(known.channel.clone(), id.to_owned()));
    }
    match (&known.reply, known.ephemeral.is_empty(), known.callback) {
        (Some(reply), ..) => Ok(ReplyMessage::Channel(known.channel.clone(), reply.clone())),
        (None, false, _) => Ok(ReplyMessage::Ephemeral(0)),
        (None, true, Some(5)) => Ok(ReplyMessage::Deferred),
        _ => Err(unknown_message()),
    }
}

/// `GET`, `PATCH` and `DELETE /webhooks/{application}/{token}/messages/{id}`.
pub(super) fn original(
    server: &PlatformState,
    data: &mut DiscordData,
    (token, id): (&str, &str),
    request: &PlatformRequest,
) -> DiscordResult {
    let body = payload(request);
    match (request.method.as_str(), place(data, token, id)?) {
        ("GET", ReplyMessage::Channel(channel, id)) => {
            let record = messages::find(data, &channel, &id)?;
            Ok((200, record.message(&id).map_or(Value::Null, rest_value)))
        }
        ("GET", ReplyMessage::Ephemeral(index)) => {
            Ok((200, rest_value(&find(data, token)?.ephemeral[index])))
        }
        ("PATCH", ReplyMessage::Channel(channel, id)) => {
            Ok((200, change(data, &channel, &id, &body)?))
        }
        ("PATCH", ReplyMessage::Ephemeral(index)) => {
            let message = &mut find(data, token)?.ephemeral[index];
            message["content"] = body["content"].clone();
            Ok((200, rest_value(message)))
        }
        ("PATCH", ReplyMessage::Deferred) => {
            let (channel, is_ephemeral) = {
                let known = find(data, token)?;
                (known.channel.clone(), known.is_ephemeral)
            };
            let message = messages::build(
                server,
                data,
                &MessageDraft::new(server, &channel, &body, &request.files),
            )?;
            let known = find(data, token)?;
            if is_ephemeral {
                known.ephemeral.push(message.clone());
            } else {
                known.reply = message["id"].as_str().map(str::to_owned);
                messages::add(data, &channel, &message);
            }
            Ok((200, rest_value(&message)))
        }
        ("DELETE", ReplyMessage::Channel(channel, id)) => messages::delete(data, &channel, &id),
        ("DELETE", ReplyMessage::Ephemeral(index)) => {
            find(data, token)?.ephemeral.remove(index);
            Ok((204, Value::Null))
        }
        ("DELETE", ReplyMessage::Deferred) => {
            find(data, token)?.callback = Some(0);
            Ok((204, Value::Null))
        }
        _ => Err(unknown_message()),
    }
}
