//! Channels, guilds and threads.

use serde_json::{Value, json};

use super::{
    messages::{self, MessageDraft, payload, rest_value, unknown_channel},
    reply::{DiscordRefusal, DiscordResult},
    world::{ChannelRecord, DiscordData, is_thread_kind, thread_value},
};
use crate::platform::{PlatformRequest, server::PlatformState};

/// `GET /channels/{id}`.
pub(super) fn get(data: &mut DiscordData, id: &str) -> DiscordResult {
    let record = data.channel(id).ok_or_else(unknown_channel)?;
    if record.is_forbidden {
        return Err(DiscordRefusal::new(403, 50001, "Missing Access"));
    }
    Ok((200, record.value.clone()))
}

/// `POST /users/@me/channels`.
pub(super) fn open_direct(
    server: &PlatformState,
    data: &mut DiscordData,
    user: &str,
) -> DiscordResult {
    let Some(person) = data.users.get(user).cloned() else {
        return Err(DiscordRefusal::new(400, 50033, "Invalid Recipient(s)"));
    };
    let known = data
        .channels
        .values()
        .find(|record| record.is_direct() && record.value["recipients"][0]["id"] == user);
    if let Some(known) = known {
        return Ok((200, known.value.clone()));
    }
    let id = server.next_id().to_string();
    let value = json!({
        "id": id, "type": 1, "last_message_id": null, "flags": 0, "recipients": [person],
    });
    data.channels.insert(id, ChannelRecord::new(value.clone()));
    Ok((200, value))
}

fn unknown_guild() -> DiscordRefusal {
    DiscordRefusal::unknown(10004, "Guild")
}

/// `GET /guilds/{id}`.
pub(super) fn guild(data: &DiscordData, id: &str) -> DiscordResult {
    let guild = data.guilds.get(id).ok_or_else(unknown_guild)?;
    Ok((200, guild.value.clone()))
}

/// `GET /guilds/{id}/channels`: not the threads.
pub(super) fn of_guild(data: &DiscordData, id: &str) -> DiscordResult {
    let value = data.guild_value(id).ok_or_else(unknown_guild)?;
    Ok((200, value["channels"].clone()))
}

/// `GET /guilds/{id}/threads/active`.
pub(super) fn active_threads(data: &DiscordData, id: &str) -> DiscordResult {
    let value = data.guild_value(id).ok_or_else(unknown_guild)?;
    Ok((200, json!({"threads": value["threads"], "members": []})))
}

/// `GET /guilds/{id}/roles`.
pub(super) fn roles(data: &DiscordData, id: &str) -> DiscordResult {
    let guild = data.guilds.get(id).ok_or_else(unknown_guild)?;
    Ok((200, guild.value["roles"].clone()))
}

/// `GET /guilds/{id}/members/{id}`.
pub(super) fn member(data: &DiscordData, guild: &str, user: &str) -> DiscordResult {
    let Some(mut member) = data.member(guild, user) else {
        return Err(DiscordRefusal::unknown(10007, "Member"));
    };
    member["user"] = data.users.get(user).cloned().unwrap_or_default();
    Ok((200, member))
}

/// `GET /users/@me/guilds`.
pub(super) fn own_guilds(data: &DiscordData) -> Value {
    let guilds: Vec<Value> = data
        .guilds
        .values()
        .map(|guild| {
            json!({
                "id": guild.value["id"], "name": guild.value["name"], "icon": null, "owner": false,
                "permissions": "2147483647", "features": [],
            })
        })
        .collect();
    guilds.into()
}

fn check_name(body: &Value) -> Result<&str, DiscordRefusal> {
    let name = body["name"].as_str().unwrap_or_default();
    if (1..=100).contains(&name.chars().count()) {
        return Ok(name);
    }
    let reason = "Must be between 1 and 100 in length.";
    Err(DiscordRefusal::invalid(
        "name",
        "BASE_TYPE_BAD_LENGTH",
        reason,
    ))
}

fn add_thread(data: &mut DiscordData, id: &str, parent: &str, name: &str) -> Value {
    let guild = data.channel_value(parent)["guild_id"].clone();
    let value = thread_value(id, &guild, parent, name);
    data.channels
        .insert(id.to_owned(), ChannelRecord::new(value.clone()));
    let mut event = value.clone();
    event["newly_created"] = json!(true);
    data.gateway.dispatch("THREAD_CREATE", &event);
    value
}

/// `POST /channels/{id}/threads`: in a forum with its first message, elsewhere without one.
pub(super) fn create_thread(
    server: &PlatformState,
    data: &mut DiscordData,
    parent: &str,
    request: &PlatformRequest,
) -> DiscordResult {
    let record = data.channel(parent).ok_or_else(unknown_channel)?;
    if record.is_forbidden {
        return Err(DiscordRefusal::missing_permissions());
    }
    let is_forum = record.is_forum();
    let body = payload(request);
    let name = check_name(&body)?;
    if !is_forum {
        let id = server.next_id().to_string();
        let thread = add_thread(data, &id, parent, name);
        return Ok((201, thread));
    }
    messages::check_content(&body["message"], !request.files.is_empty())?;
    let id = server.next_id().to_string();
    let mut thread = add_thread(data, &id, parent, name);
    // The first message has the thread's own number.
    let draft = MessageDraft {
        id: id.clone(),
        channel: &id,
        body: &body["message"],
        files: &request.files,
    };
    let message = messages::build(server, data, &draft)?;
    messages::add(data, &id, &message);
    thread["message"] = rest_value(&message);
    Ok((201, thread))
}

/// `POST /channels/{id}/messages/{id}/threads`: the thread has the message's number.
pub(super) fn create_thread_on(
    data: &mut DiscordData,
    parent: &str,
    message: &str,
    request: &PlatformRequest,
) -> DiscordResult {
    let record = messages::find(data, parent, message)?;
    if record.is_forbidden {
        return Err(DiscordRefusal::missing_permissions());
    }
    if record.is_direct() || is_thread_kind(record.kind()) {
        let reason = "Cannot execute action on this channel type";
        return Err(DiscordRefusal::new(400, 50024, reason));
    }
    let body = payload(request);
    let name = check_name(&body)?;
    if data.channels.contains_key(message) {
        let reason = "A thread has already been created for this message";
        return Err(DiscordRefusal::new(400, 160_004, reason));
    }
    let thread = add_thread(data, message, parent, name);
    if let Some(place) = data
        .channel(parent)
        .and_then(|record| record.message_mut(message))
    {
        place["thread"] = thread.clone();
    }
    Ok((201, thread))
}

/// `POST /channels/{id}/typing`.
pub(super) fn type_in(data: &mut DiscordData, id: &str) -> DiscordResult {
    let record = data.channel(id).ok_or_else(unknown_channel)?;
    if record.is_forbidden {
        return Err(DiscordRefusal::missing_permissions());
    }
    data.typing.push(id.to_owned());
    Ok((204, Value::Null))
}
