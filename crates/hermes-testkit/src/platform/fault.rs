//! What can go wrong with a platform, on demand.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// How a request fails.
#[derive(Debug, Clone, PartialEq)]
pub enum PlatformFault {
    /// With a status and a body.
    Status(u16, Value),
    /// Too many requests; the header says how many seconds to wait.
    LimitedByHeader(u64),
    /// Too many requests; the body says how many seconds to wait, as Telegram's and Discord's do.
    LimitedByBody(u64),
    /// It never answers.
    Silence,
    /// The connection is taken for a success, and the body says otherwise, as Slack's do.
    NotOk(String),
}

impl PlatformFault {
    /// A failure without any body.
    pub fn status(status: u16) -> Self {
        Self::Status(status, Value::Null)
    }

    pub(super) async fn response(self) -> Response {
        match self {
            Self::Status(status, body) => {
                let status = StatusCode::from_u16(status).unwrap_or_default();
                (status, Json(body)).into_response()
            }
            Self::LimitedByHeader(seconds) => {
                let body = Json(json!({"ok": false, "error": "ratelimited"}));
                let mut response = (StatusCode::TOO_MANY_REQUESTS, body).into_response();
                let seconds = HeaderValue::from(seconds);
                response.headers_mut().insert(header::RETRY_AFTER, seconds);
                response
            }
            Self::LimitedByBody(seconds) => {
                let body = json!({
                    "ok": false,
                    "error_code": 429,
                    "description": format!("Too Many Requests: retry after {seconds}"),
                    "parameters": {"retry_after": seconds},
                    "message": "You are being rate limited.",
                    "retry_after": seconds,
                });
                (StatusCode::TOO_MANY_REQUESTS, Json(body)).into_response()
            }
            Self::Silence => std::future::pending().await,
            Self::NotOk(error) => Json(json!({"ok": false, "error": error})).into_response(),
        }
    }
}
