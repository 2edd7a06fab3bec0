//! Slack's web API, as far as messages are sent by it.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{PlatformRequest, server::PlatformState};

pub(super) fn handle_request(server: &PlatformState, request: &PlatformRequest) -> Response {
    // Whoever knows the address of an upload may use it, and nobody should show a token there.
    if request.path.starts_with("/upload/") {
        return match request.authorization {
            None => "OK".into_response(),
            Some(_) => axum::http::StatusCode::BAD_REQUEST.into_response(),
        };
    }
    if request.authorization != Some(format!("Bearer {}", server.token)) {
        return refuse("invalid_auth");
    }
    let channel = |name: &str| request.field(name).starts_with(['C', 'D', 'G']);
    match request.last_segment() {
        "chat.postMessage" if !channel("channel") => refuse("channel_not_found"),
        "chat.postMessage" => {
            let text = request.field("text");
            if text.trim().is_empty() {
                return refuse("no_text");
            }
            if text.chars().count() > 40_000 {
                return refuse("msg_too_long");
            }
            let ts = format!("1700000000.{:06}", server.next_id());
            Json(json!({"ok": true, "channel": request.field("channel"), "ts": ts})).into_response()
        }
        "conversations.open" => {
            let user = request.field("users");
            let channel = user.replacen('U', "D", 1);
            Json(json!({"ok": true, "channel": {"id": channel}})).into_response()
        }
        "files.getUploadURLExternal" => {
            let id = server.next_id();
            let url = format!("http://{}/upload/{id}", server.address);
            Json(json!({"ok": true, "upload_url": url, "file_id": format!("F{id}")}))
                .into_response()
        }
        "files.completeUploadExternal" if !channel("channel_id") => refuse("invalid_channel"),
        "files.completeUploadExternal" => {
            Json(json!({"ok": true, "files": request.body["files"]})).into_response()
        }
        _ => refuse("unknown_method"),
    }
}

fn refuse(error: &str) -> Response {
    Json(json!({"ok": false, "error": error})).into_response()
}
