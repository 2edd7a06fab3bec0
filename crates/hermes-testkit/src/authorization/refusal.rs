//! Why a request is refused, in the words of the standards.

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// An OAuth error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OAuthRefusal {
    pub(super) error: &'static str,
    pub(super) description: String,
    /// A nonce the client needs for its next try.
    pub(super) nonce: Option<String>,
}

impl OAuthRefusal {
    pub(super) fn new(error: &'static str, description: impl Into<String>) -> Self {
        Self {
            error,
            description: description.into(),
            nonce: None,
        }
    }

    pub(super) fn request(description: impl Into<String>) -> Self {
        Self::new("invalid_request", description)
    }

    pub(super) fn grant(description: impl Into<String>) -> Self {
        Self::new("invalid_grant", description)
    }

    pub(super) fn client(description: impl Into<String>) -> Self {
        Self::new("invalid_client", description)
    }
}

impl IntoResponse for OAuthRefusal {
    fn into_response(self) -> Response {
        let status = match self.error {
            "invalid_client" => StatusCode::UNAUTHORIZED,
            _ => StatusCode::BAD_REQUEST,
        };
        let body = json!({ "error": self.error, "error_description": self.description });
        let mut response = (status, json_response(&body)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"clients\"");
            let headers = response.headers_mut();
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(nonce) = &self.nonce {
            add_nonce(&mut response, nonce);
        }
        response
    }
}

/// Returns the client which nonce its next proof needs.
pub(super) fn add_nonce(response: &mut Response, nonce: &str) {
    if let Ok(nonce) = nonce.parse() {
        let name = HeaderName::from_static("dpop-nonce");
        response.headers_mut().insert(name, nonce);
    }
}

/// JSON that nobody may keep.
pub(super) fn json_response(body: &Value) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, body.to_string()).into_response()
}

/// A page for people.
pub(super) fn html_page(status: StatusCode, text: &str) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    let body = format!("<!doctype html><title>Authorization</title><p>{text}</p>");
    (status, kind, body).into_response()
}
