//! Discord: its REST API and its gateway, both version 10, and the people at the other end.
//!
//! One handler per route serves both one-shot tests, for which every channel exists
//! ([`PlatformServer::discord`](super::PlatformServer::discord)), and [`DiscordServer`], where guilds, channels and people
//! are what a test made them.

mod channels;
mod faults;
mod gateway;
mod interactions;
mod limits;
mod messages;
mod people;
mod reply;
mod view;
mod world;

use std::ops::Deref;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{PlatformRequest, PlatformServer, server::PlatformState};
use limits::{LimitDecision, RouteKey};
use reply::{DiscordRefusal, DiscordResult, respond};
use world::DiscordData;

pub(super) use gateway::accept_gateway;
pub use people::DiscordDraft;
pub use view::{DiscordAnswer, DiscordButton, DiscordMessage};
pub use world::DISCORD_BOT;
pub(super) use world::DiscordWorld;

/// Discord with people, for one bot. Recording and faults of requests are those of [`PlatformServer`].
pub struct DiscordServer {
    platform: PlatformServer,
}

impl Deref for DiscordServer {
    type Target = PlatformServer;

    fn deref(&self) -> &PlatformServer {
        &self.platform
    }
}

impl DiscordServer {
    /// Discord for the bot with this token, without any guild.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(token: &str) -> Self {
        let platform = PlatformServer::discord(token);
        platform.server.discord.lock().has_every_channel = false;
        Self { platform }
    }

    /// Refuses connections until [`Self::come_back`].
    pub fn go_offline(&mut self) {
        self.platform.stop();
        self.data().gateway.forget_connections();
    }

    /// Listens again on the same port. Nothing was forgotten.
    ///
    /// # Panics
    ///
    /// If the port is taken.
    pub fn come_back(&mut self) {
        self.platform.resume();
    }

    fn data(&self) -> std::sync::MutexGuard<'_, DiscordData> {
        self.platform.server.discord.lock()
    }
}

/// Answers one request of the REST API.
pub(super) fn handle_request(server: &PlatformState, request: &PlatformRequest) -> Response {
    if request.path.starts_with("/cdn/") {
        return download(server, request);
    }
    let decoded: Vec<String> = request
        .path
        .trim_matches('/')
        .split('/')
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
        .collect();
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    let mut data = server.discord.lock();
    // Whoever knows the token of an interaction may answer it.
    let needs_token = !matches!(segments.as_slice(), ["interactions" | "webhooks", ..]);
    let is_known = request.authorization == Some(format!("Bot {}", server.token));
    if needs_token && (!is_known || data.is_revoked) {
        return respond(Err(DiscordRefusal::new(401, 0, "401: Unauthorized")), &[]);
    }
    let key = RouteKey::new(&request.method, &segments);
    let headers = match data.limits.decide(&key, &request.path) {
        // Only replies about interactions say nothing about limits.
        LimitDecision::Pass(_) if segments[0] == "interactions" => Vec::new(),
        LimitDecision::Pass(headers) => headers,
        LimitDecision::Refuse(response) => return response,
    };
    let result = route(server, &mut data, request, &segments);
    respond(result, &headers)
}

fn route(
    server: &PlatformState,
    data: &mut DiscordData,
    request: &PlatformRequest,
    segments: &[&str],
) -> DiscordResult {
    match (request.method.as_str(), segments) {
        ("GET", ["gateway", "bot"]) => Ok((200, gateway_address(server, data))),
        ("GET", ["gateway"]) => Ok((200, json!({"url": gateway_address(server, data)["url"]}))),
        ("GET", ["users", "@me"]) => Ok((200, data.bot.clone())),
        ("GET", ["users", "@me", "guilds"]) => Ok((200, channels::own_guilds(data))),
        ("POST", ["users", "@me", "channels"]) => {
            let user = request.field("recipient_id");
            channels::open_direct(server, data, &user)
        }
        ("GET", ["users", id]) => match data.users.get(*id) {
            Some(user) => Ok((200, user.clone())),
            None => Err(DiscordRefusal::unknown(10013, "User")),
        },
        ("GET", ["applications", "@me"] | ["oauth2", "applications", "@me"]) => {
            Ok((200, data.application.clone()))
        }
        ("PUT", ["applications", _, "commands"]) => {
            interactions::put_commands(server, data, request)
        }
        ("GET", ["applications", _, "commands"]) => Ok((200, data.commands.clone().into())),
        ("GET", ["guilds", id]) => channels::guild(data, id),
        ("GET", ["guilds", id, "channels"]) => channels::of_guild(data, id),
        ("GET", ["guilds", id, "roles"]) => channels::roles(data, id),
        ("GET", ["guilds", id, "threads", "active"]) => channels::active_threads(data, id),
        ("GET", ["guilds", guild, "members", user]) => channels::member(data, guild, user),
        (_, ["channels", channel, rest @ ..]) => {
            route_channel(server, data, request, channel, rest)
        }
        ("POST", ["interactions", id, token, "callback"]) => {
            interactions::call_back(server, data, (id, token), request)
        }
        ("POST", ["webhooks", _, token]) => interactions::follow_up(server, data, token, request),
        (_, ["webhooks", _, token, "messages", id]) => {
            interactions::original(server, data, (token, id), request)
        }
        _ => Err(DiscordRefusal::new(404, 0, "404: Not Found")),
    }
}

fn route_channel(
    server: &PlatformState,
    data: &mut DiscordData,
    request: &PlatformRequest,
    channel: &str,
    rest: &[&str],
) -> DiscordResult {
    match (request.method.as_str(), rest) {
        ("GET", []) => channels::get(data, channel),
        ("GET", ["messages"]) => messages::list(data, channel, request),
        ("POST", ["messages"]) => messages::post(server, data, channel, request),
        ("GET", ["messages", id]) => {
            let record = messages::find(data, channel, id)?;
            Ok((
                200,
                record.message(id).map_or(Value::Null, messages::rest_value),
            ))
        }
        ("PATCH", ["messages", id]) => messages::edit(server, data, channel, id, request),
        ("DELETE", ["messages", id]) => messages::delete(data, channel, id),
        ("PUT", ["messages", id, "reactions", emoji, "@me"]) => {
            messages::react(data, channel, id, emoji)
        }
        ("POST", ["threads"]) => channels::create_thread(server, data, channel, request),
        ("POST", ["messages", id, "threads"]) => {
            channels::create_thread_on(data, channel, id, request)
        }
        ("POST", ["typing"]) => channels::type_in(data, channel),
        ("PUT" | "DELETE", ["thread-members", "@me"]) => Ok((204, Value::Null)),
        _ => Err(DiscordRefusal::new(404, 0, "404: Not Found")),
    }
}

fn gateway_address(server: &PlatformState, data: &DiscordData) -> Value {
    json!({
        "url": data.gateway.url(server), "shards": 1,
        "session_start_limit": {
            "total": 1000, "remaining": data.gateway.identifies_left, "reset_after": 3_600_000, "max_concurrency": 1,
        },
    })
}

/// Files are for everybody who knows their address, without a token.
fn download(server: &PlatformState, request: &PlatformRequest) -> Response {
    let data = server.discord.lock();
    let path = percent_decode_str(&request.path).decode_utf8_lossy();
    match data.files.get(path.as_ref()) {
        Some(content) if request.authorization.is_none() => (
            [(header::CONTENT_TYPE, "application/octet-stream")],
            content.clone(),
        )
            .into_response(),
        Some(_) => StatusCode::BAD_REQUEST.into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
