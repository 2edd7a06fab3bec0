//! Replies of the REST API, with the headers that all of them carry.

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// A status and a body; `null` is an empty one.
pub(super) type DiscordResult = Result<(u16, Value), DiscordRefusal>;

/// Why a request is refused.
#[derive(Debug, Clone)]
pub(super) struct DiscordRefusal {
    pub(super) status: u16,
    pub(super) code: u64,
    pub(super) message: String,
    /// What is wrong with the fields.
    pub(super) errors: Option<Value>,
}

impl DiscordRefusal {
    pub(super) fn new(status: u16, code: u64, message: &str) -> Self {
        Self {
            status,
            code,
            message: message.to_owned(),
            errors: None,
        }
    }

    pub(super) fn unknown(code: u64, what: &str) -> Self {
        Self::new(404, code, &format!("Unknown {what}"))
    }

    /// A field that is not as it should be.
    pub(super) fn invalid(field: &str, code: &str, message: &str) -> Self {
        let mut refusal = Self::new(400, 50035, "Invalid Form Body");
        let problem = json!({"_errors": [{"code": code, "message": message}]});
        refusal.errors = Some(json!({field: problem}));
        refusal
    }

    pub(super) fn missing_permissions() -> Self {
        Self::new(403, 50013, "Missing Permissions")
    }
}

pub(super) fn respond(result: DiscordResult, headers: &[(&'static str, String)]) -> Response {
    let (status, body) = result.unwrap_or_else(|refusal| {
        let mut body = json!({"message": refusal.message, "code": refusal.code});
        if let Some(errors) = refusal.errors {
            body["errors"] = errors;
        }
        (refusal.status, body)
    });
    let status = StatusCode::from_u16(status).unwrap_or_default();
    let mut response = if body.is_null() {
        status.into_response()
    } else {
        (status, Json(body)).into_response()
    };
    // Replies without it are taken for those of a firewall before Discord.
    let via = ("via", "1.1 google".to_owned());
    for (name, value) in headers.iter().chain([&via]) {
        if let Ok(value) = HeaderValue::from_str(value) {
            let name = HeaderName::from_static(name);
            response.headers_mut().insert(name, value);
        }
    }
    response
}
