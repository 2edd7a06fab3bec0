//! One call of a bot: its parameters, however they were sent, and its reply.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::super::{FormPart, PlatformRequest};

/// The parameters of a method.
pub(super) struct BotCall<'r> {
    pub(super) method: &'r str,
    request: &'r PlatformRequest,
}

impl<'r> BotCall<'r> {
    pub(super) fn new(method: &'r str, request: &'r PlatformRequest) -> Self {
        Self { method, request }
    }

    fn value(&self, name: &str) -> &'r Value {
        &self.request.body[name]
    }

    pub(super) fn has(&self, name: &str) -> bool {
        !self.value(name).is_null()
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.request.field(name)
    }

    /// A number, which forms send as text.
    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        match self.value(name) {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_i64(),
        }
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        match self.value(name) {
            Value::String(text) => matches!(text.as_str(), "true" | "True" | "1"),
            other => other.as_bool().unwrap_or_default(),
        }
    }

    /// An object or a list, which may be sent as JSON within a text.
    pub(super) fn structure(&self, name: &str) -> Result<Value, BotError> {
        match self.value(name) {
            Value::String(text) if text.trim().is_empty() => Ok(Value::Null),
            Value::String(text) => serde_json::from_str(text)
                .map_err(|_| BotError::bad(&format!("can't parse {name} JSON object"))),
            other => Ok(other.clone()),
        }
    }

    /// The file that a parameter stands for: in the part of this name, or named by `attach://`.
    pub(super) fn file(&self, name: &str, value: &str) -> Option<&'r FormPart> {
        let part = value.strip_prefix("attach://").unwrap_or(name);
        self.request.files.iter().find(|file| file.name == part)
    }
}

/// What a method returns.
pub(super) type BotResult = Result<Value, BotError>;

/// A refusal, as the bot API words it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BotError {
    status: u16,
    description: String,
    parameters: Option<Value>,
}

impl BotError {
    pub(super) fn new(status: u16, description: &str) -> Self {
        Self {
            status,
            description: description.to_owned(),
            parameters: None,
        }
    }

    pub(super) fn bad(reason: &str) -> Self {
        Self::new(400, &format!("Bad Request: {reason}"))
    }

    pub(super) fn forbidden(reason: &str) -> Self {
        Self::new(403, &format!("Forbidden: {reason}"))
    }

    pub(super) fn conflict(reason: &str) -> Self {
        Self::new(409, &format!("Conflict: {reason}"))
    }

    pub(super) fn migrated(new_id: i64) -> Self {
        Self {
            parameters: Some(json!({"migrate_to_chat_id": new_id})),
            ..Self::bad("group chat was upgraded to a supergroup chat")
        }
    }
}

pub(super) fn respond(result: BotResult) -> Response {
    match result {
        Ok(result) => Json(json!({"ok": true, "result": result})).into_response(),
        Err(error) => {
            let mut body = json!({
                "ok": false,
                "error_code": error.status,
                "description": error.description,
            });
            if let Some(parameters) = error.parameters {
                body["parameters"] = parameters;
            }
            let status = StatusCode::from_u16(error.status).unwrap_or_default();
            (status, Json(body)).into_response()
        }
    }
}
