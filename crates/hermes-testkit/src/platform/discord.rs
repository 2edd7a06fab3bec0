//! Discord's REST API, as far as messages are sent by it.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{PlatformRequest, server::PlatformState};

pub(super) fn handle_request(server: &PlatformState, request: &PlatformRequest) -> Response {
    if request.authorization != Some(format!("Bot {}", server.token)) {
        return refuse(401, "401: Unauthorized");
    }
    let segments: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    let ["channels", channel, rest @ ..] = segments.as_slice() else {
        return refuse(404, "404: Not Found");
    };
    let is_forum = channel.starts_with("15");
    let body = payload(request);
    match (request.method.as_str(), rest) {
        ("GET", []) => {
            Json(json!({"id": channel, "type": if is_forum { 15 } else { 0 }})).into_response()
        }
        ("POST", ["messages"]) if is_forum => {
            refuse(400, "Cannot send messages in a non-text channel")
        }
        ("POST", ["messages"]) => match fault_of(&body, request) {
            Some(fault) => fault,
            None => Json(json!({"id": server.next_id().to_string(), "channel_id": channel}))
                .into_response(),
        },
        ("POST", ["threads"]) if is_forum => {
            let name = body["name"].as_str().unwrap_or_default();
            if !(1..=100).contains(&name.chars().count()) {
                return refuse(400, "Invalid Form Body");
            }
            if let Some(fault) = fault_of(&body["message"], request) {
                return fault;
            }
            let id = server.next_id().to_string();
            let thread = json!({"id": id, "type": 11, "message": {"id": id}});
            (StatusCode::CREATED, Json(thread)).into_response()
        }
        _ => refuse(404, "404: Not Found"),
    }
}

/// The message, which stands beside files in a field of its own.
fn payload(request: &PlatformRequest) -> Value {
    match request.body["payload_json"].as_str() {
        Some(text) => serde_json::from_str(text).unwrap_or_default(),
        None => request.body.clone(),
    }
}

fn fault_of(message: &Value, request: &PlatformRequest) -> Option<Response> {
    let content = message["content"].as_str().unwrap_or_default();
    if content.chars().count() > 2000 {
        return Some(refuse(400, "Invalid Form Body"));
    }
    let is_empty = content.trim().is_empty() && request.files.is_empty();
    is_empty.then(|| refuse(400, "Cannot send an empty message"))
}

fn refuse(status: u16, message: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or_default();
    (status, Json(json!({"message": message, "code": 0}))).into_response()
}
