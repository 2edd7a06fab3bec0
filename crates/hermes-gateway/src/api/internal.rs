//! `/internal`: requests that only a Hub may make.

use axum::{Json, extract::State};
use hermes_agent::policy::Directives;
use serde_json::{Value, json};

use super::{ApiState, error::ApiError, payload::Payload};

pub(super) async fn apply_directives(
    State(api): State<ApiState>,
    body: Payload,
) -> Result<Json<Value>, ApiError> {
    let directives: Directives = body.parse()?;
    api.gateway.apply_directives(directives).await;
    Ok(Json(json!({"ok": true})))
}
