//! Messages: posting, editing, deleting, reading, reactions, and files.

use serde_json::{Value, json};

use super::{
    reply::{DiscordRefusal, DiscordResult},
    world::{ChannelRecord, DISCORD_BOT, DiscordData, now},
};
use crate::platform::{FormPart, PlatformRequest, server::PlatformState};

const MAX_CONTENT: usize = 2000;
const MAX_NONCE: usize = 25;
/// The flag of something spoken.
const VOICE_MESSAGE: u64 = 1 << 13;

/// The message in a request: beside files it stands in a field of its own.
pub(super) fn payload(request: &PlatformRequest) -> Value {
    match request.body["payload_json"].as_str() {
        Some(text) => serde_json::from_str(text).unwrap_or_default(),
        None => request.body.clone(),
    }
}

pub(super) fn unknown_channel() -> DiscordRefusal {
    DiscordRefusal::unknown(10003, "Channel")
}

pub(super) fn unknown_message() -> DiscordRefusal {
    DiscordRefusal::unknown(10008, "Message")
}

/// `POST /channels/{id}/messages`.
pub(super) fn post(
    server: &PlatformState,
    data: &mut DiscordData,
    channel: &str,
    request: &PlatformRequest,
) -> DiscordResult {
    let record = data.channel(channel).ok_or_else(unknown_channel)?;
    if record.is_forbidden {
        return Err(DiscordRefusal::missing_permissions());
    }
    if record.is_forum() {
        let reason = "Cannot send messages in a non-text channel";
        return Err(DiscordRefusal::new(400, 50008, reason));
    }
    let body = payload(request);
    let nonce = nonce_of(&body)?;
    if let Some(nonce) = &nonce
        && body["enforce_nonce"] == true
        && let Some(id) = data.nonces.get(&(channel.to_owned(), nonce.clone()))
        && let Some(known) = data
            .channels
            .get(channel)
            .and_then(|record| record.message(id))
    {
        return Ok((200, rest_value(known)));
    }
    let draft = MessageDraft::new(server, channel, &body, &request.files);
    let message = build(server, data, &draft)?;
    if let (Some(nonce), Some(id)) = (nonce, message["id"].as_str()) {
        data.nonces
            .insert((channel.to_owned(), nonce), id.to_owned());
    }
    add(data, channel, &message);
    Ok((200, rest_value(&message)))
}

fn nonce_of(body: &Value) -> Result<Option<String>, DiscordRefusal> {
    let nonce = match &body["nonce"] {
        Value::Null => return Ok(None),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if nonce.chars().count() > MAX_NONCE {
        let reason = "Must be 25 or fewer in length.";
        return Err(DiscordRefusal::invalid(
            "nonce",
            "BASE_TYPE_MAX_LENGTH",
            reason,
        ));
    }
    Ok(Some(nonce))
}

/// What the bot wants to say.
pub(super) struct MessageDraft<'d> {
    pub(super) id: String,
    pub(super) channel: &'d str,
    pub(super) body: &'d Value,
    pub(super) files: &'d [FormPart],
}

impl<'d> MessageDraft<'d> {
    /// With a number of its own.
    pub(super) fn new(
        server: &PlatformState,
        channel: &'d str,
        body: &'d Value,
        files: &'d [FormPart],
    ) -> Self {
        Self {
            id: server.next_id().to_string(),
            channel,
            body,
            files,
        }
    }
}

/// A message of the bot, checked.
pub(super) fn build(
    server: &PlatformState,
    data: &mut DiscordData,
    draft: &MessageDraft<'_>,
) -> Result<Value, DiscordRefusal> {
    let MessageDraft {
        channel,
        body,
        files,
        ..
    } = *draft;
    check_content(body, !files.is_empty())?;
    check_components(&body["components"])?;
    check_voice(data, channel, body, files)?;
    let mut message = new_message(data, &draft.id, channel, DISCORD_BOT, text_of(body));
    message["components"] = number_components(&body["components"]);
    message["flags"] = json!(body["flags"].as_u64().unwrap_or_default());
    message["nonce"] = body["nonce"].clone();
    message["attachments"] = store_files(server, data, channel, body, files)?;
    add_reference(data, channel, &mut message, &body["message_reference"])?;
    if let Some(embeds) = body["embeds"].as_array() {
        message["embeds"] = embeds.clone().into();
    }
    let allowed = &body["allowed_mentions"];
    if allowed["parse"].as_array().is_some_and(Vec::is_empty) && allowed["users"].is_null() {
        message["mentions"] = json!([]);
        message["mention_roles"] = json!([]);
    }
    Ok(message)
}

fn text_of(body: &Value) -> &str {
    body["content"].as_str().unwrap_or_default()
}

pub(super) fn check_content(body: &Value, has_files: bool) -> Result<(), DiscordRefusal> {
    if text_of(body).chars().count() > MAX_CONTENT {
        let reason = "Must be 2000 or fewer in length.";
        return Err(DiscordRefusal::invalid(
            "content",
            "BASE_TYPE_MAX_LENGTH",
            reason,
        ));
    }
    let has_other = ["embeds", "components", "sticker_ids", "poll"]
        .iter()
        .any(|key| {
            body[*key].as_array().is_some_and(|list| !list.is_empty()) || body[*key].is_object()
        });
    if text_of(body).trim().is_empty() && !has_files && !has_other {
        return Err(DiscordRefusal::new(
            400,
            50006,
            "Cannot send an empty message",
        ));
    }
    Ok(())
}

/// Rows of buttons, as far as Discord's rules for them go.
pub(super) fn check_components(components: &Value) -> Result<(), DiscordRefusal> {
    let invalid =
        |reason: &str| DiscordRefusal::invalid("components", "BASE_TYPE_BAD_LENGTH", reason);
    let rows = components.as_array().map_or(&[][..], Vec::as_slice);
    if rows.len() > 5 {
        return Err(invalid("Must be between 1 and 5 in length."));
    }
    let mut ids = Vec::new();
    for row in rows {
        let buttons = row["components"].as_array().map_or(&[][..], Vec::as_slice);
        if row["type"] != 1 || !(1..=5).contains(&buttons.len()) {
            return Err(invalid("Must be between 1 and 5 in length."));
        }
        for button in buttons {
            let label = button["label"].as_str().unwrap_or_default();
            if label.chars().count() > 80 {
                return Err(invalid("Must be 80 or fewer in length."));
            }
            match (
                button["style"].as_u64(),
                &button["custom_id"],
                &button["url"],
            ) {
                (Some(5), Value::Null, Value::String(_)) => {}
                (Some(1..=4), Value::String(id), Value::Null)
                    if (1..=100).contains(&id.chars().count()) =>
                {
                    if ids.contains(&id) {
                        return Err(invalid("Component custom id cannot be duplicated"));
                    }
                    ids.push(id);
                }
                _ => return Err(invalid("A custom id or url is required")),
            }
        }
    }
    Ok(())
}

/// Components get numbers.
fn number_components(components: &Value) -> Value {
    let mut numbered = match components {
        Value::Array(rows) => rows.clone(),
        _ => Vec::new(),
    };
    let mut next = 0;
    for row in &mut numbered {
        next += 1;
        row["id"] = json!(next);
        for button in row["components"].as_array_mut().into_iter().flatten() {
            next += 1;
            button["id"] = json!(next);
        }
    }
    numbered.into()
}

/// What a message that is something spoken may have.
fn check_voice(
    data: &DiscordData,
    channel: &str,
    body: &Value,
    files: &[FormPart],
) -> Result<(), DiscordRefusal> {
    if body["flags"].as_u64().unwrap_or_default() & VOICE_MESSAGE == 0 {
        return Ok(());
    }
    let refused = |code, reason| Err(DiscordRefusal::new(400, code, reason));
    let record = data.channels.get(channel);
    if record.is_some_and(|record| record.is_voice_forbidden) {
        return refused(50173, "You cannot send voice messages in this channel");
    }
    if !text_of(body).is_empty() || !body["embeds"].is_null() || !body["components"].is_null() {
        return refused(50159, "Voice messages do not support additional content");
    }
    if files.len() != 1 {
        return refused(50160, "Voice messages must have a single audio attachment");
    }
    let described = &body["attachments"][0];
    if !described["duration_secs"].is_number() || !described["waveform"].is_string() {
        return refused(50161, "Voice messages must have supporting metadata");
    }
    Ok(())
}

fn store_files(
    server: &PlatformState,
    data: &mut DiscordData,
    channel: &str,
    body: &Value,
    files: &[FormPart],
) -> Result<Value, DiscordRefusal> {
    if files.iter().map(|file| file.content.len()).sum::<usize>() > data.max_file_bytes {
        return Err(DiscordRefusal::new(413, 40005, "Request entity too large"));
    }
    let mut attachments = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let number = file.name.strip_prefix("files[");
        let number = number.and_then(|rest| rest.strip_suffix(']')?.parse().ok());
        let number = number.unwrap_or(index as u64);
        let text = &number.to_string();
        let described = body["attachments"].as_array().and_then(|list| {
            let is_this = |entry: &&Value| entry["id"] == number || entry["id"] == *text;
            list.iter().find(is_this)
        });
        let name = described.and_then(|entry| entry["filename"].as_str());
        let name = name.unwrap_or(&file.file_name).to_owned();
        let mut stored = store_file(server, data, channel, &name, &file.content);
        for member in ["duration_secs", "waveform"] {
            if let Some(value) = described.and_then(|entry| entry.get(member)) {
                stored[member] = value.clone();
            }
        }
        attachments.push(stored);
    }
    Ok(attachments.into())
}

/// Puts a file where it can be downloaded.
pub(super) fn store_file(
    server: &PlatformState,
    data: &mut DiscordData,
    channel: &str,
    name: &str,
    content: &[u8],
) -> Value {
    let id = server.next_id();
    let path = format!("/cdn/attachments/{channel}/{id}/{name}");
    let url = format!("{}{path}?ex=1&is=2&hm=3", server.web_origin());
    data.files.insert(path, content.to_vec());
    json!({
        "id": id.to_string(), "filename": name, "size": content.len(), "url": url, "proxy_url": url,
        "content_type": content_type(name), "content_scan_version": 2,
    })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "ogg" => "audio/ogg",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn add_reference(
    data: &DiscordData,
    channel: &str,
    message: &mut Value,
    reference: &Value,
) -> Result<(), DiscordRefusal> {
    // Numbers may be written without quotes.
    let id = match &reference["message_id"] {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => return Ok(()),
    };
    let id = id.as_str();
    let known = data
        .channels
        .get(channel)
        .and_then(|record| record.message(id));
    if known.is_none() && reference["fail_if_not_exists"] == false {
        return Ok(());
    }
    let Some(known) = known else {
        let code = "REPLIES_UNKNOWN_MESSAGE";
        return Err(DiscordRefusal::invalid(
            "message_reference",
            code,
            "Unknown message",
        ));
    };
    message["type"] = json!(19);
    message["message_reference"] = json!({"type": 0, "channel_id": channel, "message_id": id});
    if let Some(guild) = data.guild_of(channel) {
        message["message_reference"]["guild_id"] = guild.into();
    }
    message["referenced_message"] = rest_value(known);
    Ok(())
}

/// A message without anything special.
pub(super) fn new_message(
    data: &DiscordData,
    id: &str,
    channel: &str,
    author: &str,
    content: &str,
) -> Value {
    let mentioned = |prefixes: &[&str]| -> Vec<String> {
        let found = prefixes.iter().flat_map(|prefix| {
            let pieces = content.split(prefix).skip(1);
            pieces.filter_map(|piece| piece.split_once('>').map(|(id, _)| id.to_owned()))
        });
        found.collect()
    };
    let users: Vec<Value> = mentioned(&["<@", "<@!"])
        .iter()
        .filter_map(|id| data.users.get(id).cloned())
        .collect();
    let mut message = json!({
        "id": id, "type": 0, "channel_id": channel,
        "author": data.users.get(author).cloned().unwrap_or_default(), "content": content, "timestamp": now(),
        "edited_timestamp": null, "tts": false, "mention_everyone": false, "mentions": users,
        "mention_roles": mentioned(&["<@&"]), "attachments": [], "embeds": [], "pinned": false, "components": [],
        "flags": 0,
    });
    if let Some(guild) = data.guild_of(channel) {
        if let Some(member) = data.member(&guild, author) {
            message["member"] = member;
        }
        message["guild_id"] = guild.into();
    }
    message
}

/// Puts a message into its channel and tells everybody.
pub(super) fn add(data: &mut DiscordData, channel: &str, message: &Value) {
    if let Some(record) = data.channel(channel) {
        record.messages.push(message.clone());
        record.value["last_message_id"] = message["id"].clone();
    }
    data.gateway.dispatch("MESSAGE_CREATE", message);
}

/// A message as the REST API shows it: the guild and the member are for events only.
pub(super) fn rest_value(message: &Value) -> Value {
    let mut shown = message.clone();
    if let Some(fields) = shown.as_object_mut() {
        fields.retain(|key, _| !matches!(key.as_str(), "guild_id" | "member" | "ephemeral_for"));
    }
    shown
}

/// `GET /channels/{id}/messages`: newest first, or from after a message on.
pub(super) fn list(
    data: &mut DiscordData,
    channel: &str,
    query: &PlatformRequest,
) -> DiscordResult {
    let record = data.channel(channel).ok_or_else(unknown_channel)?;
    if record.is_forbidden {
        return Err(DiscordRefusal::new(403, 50001, "Missing Access"));
    }
    let limit = query.field("limit").parse().unwrap_or(50);
    if !(1..=100).contains(&limit) {
        let reason = "int value should be between 1 and 100.";
        return Err(DiscordRefusal::invalid("limit", "NUMBER_TYPE_MAX", reason));
    }
    let number = |text: &str| text.parse::<u64>().ok();
    let id =
        |message: &Value| number(message["id"].as_str().unwrap_or_default()).unwrap_or_default();
    let mut found: Vec<&Value> = record.messages.iter().collect();
    if let Some(after) = number(&query.field("after")) {
        found.retain(|message| id(message) > after);
        found.truncate(limit);
    }
    if let Some(before) = number(&query.field("before")) {
        found.retain(|message| id(message) < before);
    }
    let shown = found.iter().rev().take(limit);
    let shown: Vec<Value> = shown.map(|message| rest_value(message)).collect();
    Ok((200, shown.into()))
}

/// A message of a channel, which must be the bot's own to be changed.
pub(super) fn find<'d>(
    data: &'d mut DiscordData,
    channel: &str,
    id: &str,
) -> Result<&'d mut ChannelRecord, DiscordRefusal> {
    let record = data.channel(channel).ok_or_else(unknown_channel)?;
    match record.message(id) {
        Some(_) => Ok(record),
        None => Err(unknown_message()),
    }
}

/// `PATCH /channels/{id}/messages/{id}`.
pub(super) fn edit(
    server: &PlatformState,
    data: &mut DiscordData,
    channel: &str,
    id: &str,
    request: &PlatformRequest,
) -> DiscordResult {
    let record = find(data, channel, id)?;
    let known = record.message(id).cloned().unwrap_or_default();
    if known["author"]["id"] != DISCORD_BOT {
        let reason = "Cannot edit a message authored by another user";
        return Err(DiscordRefusal::new(403, 50005, reason));
    }
    let body = payload(request);
    let mut changed = known;
    for key in ["content", "components", "embeds", "flags"] {
        if !body[key].is_null() {
            changed[key] = body[key].clone();
        }
    }
    if !request.files.is_empty() {
        changed["attachments"] = store_files(server, data, channel, &body, &request.files)?;
    }
    let has_files = changed["attachments"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    check_content(&changed, has_files)?;
    check_components(&changed["components"])?;
    changed["components"] = number_components(&changed["components"]);
    changed["edited_timestamp"] = json!(now());
    if let Some(place) = data
        .channel(channel)
        .and_then(|record| record.message_mut(id))
    {
        *place = changed.clone();
    }
    data.gateway.dispatch("MESSAGE_UPDATE", &changed);
    Ok((200, rest_value(&changed)))
}

/// `DELETE /channels/{id}/messages/{id}`.
pub(super) fn delete(data: &mut DiscordData, channel: &str, id: &str) -> DiscordResult {
    let record = find(data, channel, id)?;
    record.messages.retain(|message| message["id"] != id);
    let mut event = json!({"id": id, "channel_id": channel});
    if let Some(guild) = data.guild_of(channel) {
        event["guild_id"] = guild.into();
    }
    data.gateway.dispatch("MESSAGE_DELETE", &event);
    Ok((204, Value::Null))
}

/// `PUT /channels/{id}/messages/{id}/reactions/{emoji}/@me`.
pub(super) fn react(data: &mut DiscordData, channel: &str, id: &str, emoji: &str) -> DiscordResult {
    let record = find(data, channel, id)?;
    // A name without a number is one of Unicode's.
    if emoji.is_ascii() && !emoji.contains(':') {
        return Err(DiscordRefusal::unknown(10014, "Emoji"));
    }
    if let Some(message) = record.message_mut(id) {
        let reaction = json!({"count": 1, "me": true, "emoji": {"id": null, "name": emoji}});
        match message["reactions"].as_array_mut() {
            Some(list) => list.push(reaction),
            None => message["reactions"] = json!([reaction]),
        }
    }
    Ok((204, Value::Null))
}
