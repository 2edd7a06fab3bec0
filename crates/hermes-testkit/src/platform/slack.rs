//! Slack: its Web API, Socket Mode, and the people of a workspace.

mod call;
mod chat;
mod conversations;
mod events;
mod files;
mod people;
mod sockets;
mod streams;
mod workspace;

use axum::response::Response;

use super::{PlatformRequest, server::PlatformState};
use call::{SlackArguments, SlackRefusal, SlackReply, respond};

pub use people::{SlackMessage, SlackPost, SlackServer};
pub(super) use sockets::accept_socket;
pub(super) use workspace::SlackWorkspace;
pub use workspace::{SLACK_APP, SLACK_BOT, SLACK_BOT_USER, SLACK_TEAM};

/// Whether a request opens a socket.
pub(super) fn is_socket(path: &str) -> bool {
    path.starts_with("/link/")
}

pub(super) fn handle_request(server: &PlatformState, request: &PlatformRequest) -> Response {
    if request.path.starts_with("/upload/") {
        return files::receive_upload(server, request);
    }
    if request.path.starts_with("/files-pri/") {
        return files::download(server, request);
    }
    let method = request.last_segment();
    let reply = check_access(server, request, method)
        .and_then(|()| call_method(server, &SlackArguments(request), method));
    let scopes = server.slack.lock().provided_scopes();
    respond(reply, &scopes)
}

fn call_method(server: &PlatformState, call: &SlackArguments<'_>, method: &str) -> SlackReply {
    match method {
        "auth.test" => Ok(conversations::describe_bot(server)),
        "apps.connections.open" => Ok(sockets::open_connection(server)),
        "chat.postMessage" => chat::post_message(server, call),
        "chat.update" => chat::update_message(server, call),
        "chat.delete" => chat::delete_message(server, call),
        "chat.postEphemeral" => chat::post_ephemeral(server, call),
        "chat.startStream" => streams::start(server, call),
        "chat.appendStream" => streams::append(server, call),
        "chat.stopStream" => streams::stop(server, call),
        "reactions.add" => chat::add_reaction(server, call),
        "agents.sessions.setStatus" => streams::set_session_status(server, call),
        "assistant.threads.setStatus" => streams::set_thread_status(server, call),
        "users.info" => conversations::user_info(server, call),
        "users.conversations" => conversations::of_bot(server, call),
        "conversations.info" => conversations::info(server, call),
        "conversations.history" => conversations::history(server, call),
        "conversations.replies" => conversations::replies(server, call),
        "conversations.open" => conversations::open(server, call),
        "conversations.members" => conversations::members(server, call),
        "files.getUploadURLExternal" => files::upload_url(server, call),
        "files.completeUploadExternal" => files::complete_upload(server, call),
        "files.info" => files::info(server, call),
        _ => Err("unknown_method".into()),
    }
}

/// Checks the token and its scopes.
fn check_access(
    server: &PlatformState,
    request: &PlatformRequest,
    method: &str,
) -> Result<(), SlackRefusal> {
    let mut state = server.slack.lock();
    let header = request.authorization.as_deref();
    let token = match header.and_then(|header| header.strip_prefix("Bearer ")) {
        Some(token) => token.to_owned(),
        // A form may carry it, too.
        None => request.field("token"),
    };
    let is_app = !state.app_token.is_empty() && token == state.app_token;
    let is_bot = token == server.token;
    if token.is_empty() {
        return Err("not_authed".into());
    }
    if !is_app && !is_bot {
        return Err("invalid_auth".into());
    }
    if is_bot && state.is_revoked {
        return Err("token_revoked".into());
    }
    if state.unknown_methods.contains(method) {
        return Err("unknown_method".into());
    }
    if (method == "apps.connections.open") != is_app {
        return Err("not_allowed_token_type".into());
    }
    let channel = request.field("channel");
    let kind = state
        .channel(&channel)
        .map_or("channel", |record| record.kind());
    let needed = needed_scope(method, kind);
    if !needed.is_empty() && !state.scopes.contains(&needed) {
        return Err(SlackRefusal::missing_scope(
            &needed,
            &state.provided_scopes(),
        ));
    }
    Ok(())
}

/// The scope of a method, for a channel of this kind.
fn needed_scope(method: &str, kind: &str) -> String {
    let family = match kind {
        "im" => "im",
        "mpim" => "mpim",
        "group" => "groups",
        _ => "channels",
    };
    match method {
        "conversations.history" | "conversations.replies" => format!("{family}:history"),
        "conversations.info" | "conversations.members" => format!("{family}:read"),
        "users.conversations" => "channels:read".into(),
        "conversations.open" => "im:write".into(),
        "users.info" => "users:read".into(),
        "reactions.add" => "reactions:write".into(),
        "files.info" => "files:read".into(),
        _ if method.starts_with("files.") => "files:write".into(),
        _ if method.starts_with("chat.") => "chat:write".into(),
        _ => String::new(),
    }
}
