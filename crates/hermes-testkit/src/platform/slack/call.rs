//! One request to Slack's Web API: its arguments, and refusals in Slack's words.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::platform::PlatformRequest;

/// A refusal: an error by its name, and what else the reply says.
#[derive(Debug)]
pub(super) struct SlackRefusal {
    error: &'static str,
    details: Value,
}

/// What a method returns: the members of the reply beside `ok`.
pub(super) type SlackReply = Result<Value, SlackRefusal>;

impl From<&'static str> for SlackRefusal {
    fn from(error: &'static str) -> Self {
        Self {
            error,
            details: json!({}),
        }
    }
}

impl SlackRefusal {
    pub(super) fn missing_scope(needed: &str, provided: &str) -> Self {
        Self {
            error: "missing_scope",
            details: json!({"needed": needed, "provided": provided}),
        }
    }
}

/// The response, with the scopes of the token in a header as Slack has them.
pub(super) fn respond(reply: SlackReply, scopes: &str) -> Response {
    let (is_ok, mut body) = match reply {
        Ok(body) => (true, body),
        Err(refusal) => {
            let mut body = refusal.details;
            body["error"] = json!(refusal.error);
            (false, body)
        }
    };
    body["ok"] = json!(is_ok);
    let mut response = if body["error"] == "ratelimited" {
        (StatusCode::TOO_MANY_REQUESTS, Json(body)).into_response()
    } else {
        Json(body).into_response()
    };
    let headers = response.headers_mut();
    if let Ok(scopes) = HeaderValue::try_from(scopes) {
        headers.insert("x-oauth-scopes", scopes);
    }
    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The arguments of a request. Forms carry lists and objects as JSON texts.
pub(super) struct SlackArguments<'r>(pub(super) &'r PlatformRequest);

impl SlackArguments<'_> {
    /// A text; empty if there is none.
    pub(super) fn text(&self, name: &str) -> String {
        self.0.field(name)
    }

    pub(super) fn optional(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// A list or an object.
    pub(super) fn json(&self, name: &str) -> Value {
        match &self.0.body[name] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            other => other.clone(),
        }
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.text(name).as_str(), "true" | "1" | "True")
    }

    pub(super) fn number(&self, name: &str, default: usize) -> usize {
        self.text(name).parse().unwrap_or(default)
    }
}
