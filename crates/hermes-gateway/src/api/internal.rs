//! `/internal`: requests that only a Hub may make.

use axum::{Json, extract::State};
use hermes_agent::ceiling::Directives;
use serde_json::{Value, json};

use super::{Api, error::ApiError, payload::Payload};

pub(super) async fn direct(State(api): State<Api>, body: Payload) -> Result<Json<Value>, ApiError> {
    let directives: Directives = body.parse()?;
    api.gateway.direct(directives).await;
    Ok(Json(json!({"ok": true})))
}
