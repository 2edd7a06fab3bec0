//! `/internal/requests`: what the operator of a Hub asks about the model and the MCP servers. Only a Hub may.

use axum::{Json, extract::State};
use hermes_protocol::{AgentReply, AgentRequest};

use super::{ApiState, error::ApiError, payload::Payload};
use crate::operator_requests;

pub(super) async fn execute(
    State(api): State<ApiState>,
    body: Payload,
) -> Result<Json<AgentReply>, ApiError> {
    let request: AgentRequest = body.parse()?;
    Ok(Json(
        operator_requests::execute(&api.gateway, request).await,
    ))
}
