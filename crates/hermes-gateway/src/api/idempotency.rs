//! `Idempotency-Key`: a repeated request is executed once.

use axum::{
    Json,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use hermes_config::to_hex;
use hermes_store::runtime::{IdempotencyKey, StoredReply};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{ApiState, error::ApiError, payload::Payload};

const HEADER: &str = "idempotency-key";
const REPLAY: HeaderName = HeaderName::from_static("idempotent-replay");
const MAX_KEY_CHARS: usize = 128;

/// The key of a request to a route, if there is one.
pub(super) fn parse_key(
    route: &str,
    headers: &HeaderMap,
    body: &Payload,
) -> Result<Option<IdempotencyKey>, ApiError> {
    let Some(value) = headers.get(HEADER) else {
        return Ok(None);
    };
    let key = value.to_str().ok().filter(|key| !key.is_empty());
    let Some(key) = key.filter(|key| key.len() <= MAX_KEY_CHARS) else {
        let message =
            format!("`Idempotency-Key` must have 1 to {MAX_KEY_CHARS} printable characters");
        return Err(ApiError::invalid("invalid_idempotency_key", message));
    };
    let digest = Sha256::digest(&body.0);
    Ok(Some(IdempotencyKey {
        key: format!("{route} {key}"),
        fingerprint: to_hex(&digest),
    }))
}

/// Identifies a request by key and body.
pub(super) fn request_marker(key: &IdempotencyKey) -> String {
    let digest = Sha256::digest(format!("{} {}", key.key, key.fingerprint));
    to_hex(&digest[..16])
}

/// Marks a replayed response.
pub(super) fn mark_replay(response: &mut Response, is_replay: bool) {
    if is_replay {
        let value = HeaderValue::from_static("true");
        response.headers_mut().insert(REPLAY, value);
    }
}

/// Executes `make` once. The reply is stored, and replayed for the same request.
pub(super) async fn run_once(
    api: &ApiState,
    key: Option<IdempotencyKey>,
    status: StatusCode,
    make: impl Future<Output = Result<Value, ApiError>>,
) -> Result<Response, ApiError> {
    let Some(key) = key else {
        return Ok((status, Json(make.await?)).into_response());
    };
    let store = api.gateway.store();
    if let Some(reply) = store.reply(&key.key).await? {
        if reply.fingerprint != key.fingerprint {
            return Err(ApiError::conflict(
                "idempotency_key_reused",
                "the idempotency key was used for another request",
            ));
        }
        let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
        let body: Value = serde_json::from_str(&reply.body).unwrap_or_default();
        let mut response = (status, Json(body)).into_response();
        mark_replay(&mut response, true);
        return Ok(response);
    }
    let answer = make.await?;
    let reply = StoredReply {
        fingerprint: key.fingerprint,
        status: status.as_u16(),
        body: answer.to_string(),
    };
    store.store_reply(&key.key, &reply).await?;
    Ok((status, Json(answer)).into_response())
}
