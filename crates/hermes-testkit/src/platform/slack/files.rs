//! Files: uploads in three steps, and downloads with the bot's token.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    call::{SlackArguments, SlackReply},
    chat::{self, SlackContent},
    events,
    workspace::SlackFile,
};
use crate::platform::{PlatformRequest, server::PlatformState};

pub(super) fn upload_url(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let name = call.text("filename");
    let length = call.number("length", 0);
    if name.is_empty() || length == 0 {
        return Err("invalid_arguments".into());
    }
    let number = server.next_id();
    let id = format!("F{number}");
    let file = SlackFile {
        title: name.clone(),
        mime_type: guess_type(&name).to_owned(),
        name,
        length,
        content: None,
    };
    server.slack.lock().files.insert(id.clone(), file);
    let url = format!("{}/upload/{number}", server.web_origin());
    Ok(json!({"upload_url": url, "file_id": id}))
}

/// Whoever knows the address of an upload may use it, and nobody should show a token there.
pub(super) fn receive_upload(server: &PlatformState, request: &PlatformRequest) -> Response {
    if request.authorization.is_some() {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let id = format!("F{}", request.last_segment());
    let content = match request.files.first() {
        Some(part) => part.content.clone(),
        None => request.bytes.clone(),
    };
    let mut state = server.slack.lock();
    match state.files.get_mut(&id) {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(file) if file.length != content.len() => StatusCode::BAD_REQUEST.into_response(),
        Some(file) => {
            file.content = Some(content);
            format!("OK - {}", file.length).into_response()
        }
    }
}

pub(super) fn complete_upload(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let wanted = call.json("files");
    let Some(wanted) = wanted.as_array().filter(|files| !files.is_empty()) else {
        return Err("invalid_arguments".into());
    };
    let channel = call.text("channel_id");
    if !channel.is_empty() && !channel.starts_with(['C', 'D', 'G']) {
        return Err("invalid_channel".into());
    }
    let mut state = server.slack.lock();
    let mut described = Vec::new();
    for file in wanted {
        let id = file["id"].as_str().unwrap_or_default();
        let stored = state.files.get_mut(id).ok_or("file_not_found")?;
        if stored.content.is_none() {
            return Err("file_not_found".into());
        }
        if let Some(title) = file["title"].as_str() {
            title.clone_into(&mut stored.title);
        }
        described.push(stored.describe(id, server.address));
    }
    if !channel.is_empty() {
        let ts = state.next_ts(|| server.next_id());
        let content = SlackContent {
            text: call.text("initial_comment"),
            ..SlackContent::default()
        };
        let mut message = chat::own_message(&ts, &content);
        message["subtype"] = json!("file_share");
        message["files"] = json!(described);
        if let Some(thread) = call.optional("thread_ts") {
            message["thread_ts"] = json!(thread);
        }
        state.add_message(&channel, message.clone())?;
        events::send_message_event(&mut state, &channel, &message);
    }
    let short: Vec<Value> = described
        .iter()
        .map(|file| json!({"id": file["id"], "title": file["title"]}))
        .collect();
    Ok(json!({"files": short}))
}

pub(super) fn info(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let id = call.text("file");
    let state = server.slack.lock();
    let file = state.files.get(&id).ok_or("file_not_found")?;
    Ok(json!({"file": file.describe(&id, server.address)}))
}

/// `/files-pri/<team>-<file>/<name>`. Without a token that may read files there is a page to log in, and no error.
pub(super) fn download(server: &PlatformState, request: &PlatformRequest) -> Response {
    let state = server.slack.lock();
    let is_allowed = request.authorization == Some(format!("Bearer {}", server.token))
        && !state.is_revoked
        && state.scopes.contains("files:read");
    if !is_allowed {
        let page = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
        return (page, "<!DOCTYPE html><title>Log in</title>").into_response();
    }
    let id = request.path.split('/').nth(2).unwrap_or_default();
    let id = id.split_once('-').map_or("", |(_, id)| id);
    match state.files.get(id).map(|file| (file, &file.content)) {
        Some((file, Some(content))) => {
            let kind = [(header::CONTENT_TYPE, file.mime_type.clone())];
            (kind, content.clone()).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

pub(super) fn guess_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("mp3") => "audio/mpeg",
        Some("m4a") => "audio/mp4",
        Some("mp4") => "video/mp4",
        Some("txt") => "text/plain",
        _ => "application/octet-stream",
    }
}
