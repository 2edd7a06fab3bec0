//! Telegram's bot API, as far as messages are sent by it.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{PlatformRequest, markdown_v2, server::PlatformState};

/// A chat given by its name has this number.
const NAMED_CHAT: i64 = -100_777;

pub(super) fn handle_request(server: &PlatformState, request: &PlatformRequest) -> Response {
    let method = request.last_segment();
    if request.path != format!("/bot{}/{method}", server.token) {
        return refuse(401, "Unauthorized");
    }
    let (words, limit, file) = match method {
        "sendMessage" => ("text", 4096, None),
        "sendPhoto" => ("caption", 1024, Some("photo")),
        "sendVideo" => ("caption", 1024, Some("video")),
        "sendAudio" => ("caption", 1024, Some("audio")),
        "sendVoice" => ("caption", 1024, Some("voice")),
        "sendDocument" => ("caption", 1024, Some("document")),
        _ => return refuse(404, "Not Found"),
    };
    let mut text = request.field(words);
    if request.field("parse_mode") == "MarkdownV2" {
        match markdown_v2::parse(&text) {
            Ok(plain) => text = plain,
            Err(reason) => {
                return refuse(400, &format!("Bad Request: can't parse entities: {reason}"));
            }
        }
    }
    if text.encode_utf16().count() > limit {
        return refuse(400, "Bad Request: message is too long");
    }
    if file.is_none() && text.trim().is_empty() {
        return refuse(400, "Bad Request: message text is empty");
    }
    if file.is_some_and(|file| request.files.iter().all(|part| part.name != file)) {
        return refuse(400, "Bad Request: there is no file in the request");
    }
    let chat = request.field("chat_id");
    let chat: i64 = match chat.strip_prefix('@') {
        Some(_) => NAMED_CHAT,
        None => match chat.parse() {
            Ok(number) => number,
            Err(_) => return refuse(400, "Bad Request: chat not found"),
        },
    };
    let message = json!({"message_id": server.next_id(), "chat": {"id": chat}, "text": text});
    Json(json!({"ok": true, "result": message})).into_response()
}

fn refuse(status: u16, description: &str) -> Response {
    let body: Value = json!({"ok": false, "error_code": status, "description": description});
    let status = StatusCode::from_u16(status).unwrap_or_default();
    (status, Json(body)).into_response()
}
