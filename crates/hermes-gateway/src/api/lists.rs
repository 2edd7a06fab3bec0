//! Health details, skills, toolsets, the API's capabilities, and what only a Hub may send: directives and requests of its
//! operator.

use axum::{Json, extract::State};
use hermes_agent::{
    approval::DenyAllApprover,
    conversation::{Consent, Conversation, ConversationSetup, ToolsetKind},
};
use hermes_protocol::{AgentReply, AgentRequest, Directives};
use hermes_store::{NewSession, SessionId};
use jiff::Zoned;
use serde_json::{Value, json};

use super::{ApiState, error::ApiError, openai::MODEL, payload::Payload};
use crate::operator_requests;

pub(super) async fn health(State(api): State<ApiState>) -> Json<Value> {
    Json(api.gateway.health().await)
}

pub(super) async fn skills(State(api): State<ApiState>) -> Result<Json<Value>, ApiError> {
    let skills = api.gateway.agent().skills();
    let list = tokio::task::spawn_blocking(move || skills.list()).await;
    let list = list.map_err(|error| ApiError::internal(error.to_string()))?;
    let skills: Vec<Value> = list
        .into_iter()
        .map(|skill| {
            json!({
                "name": skill.name,
                "description": skill.description,
                "category": skill.category,
                "version": skill.frontmatter.get("version"),
            })
        })
        .collect();
    Ok(Json(json!({"object": "list", "skills": skills})))
}

pub(super) async fn toolsets(State(api): State<ApiState>) -> Json<Value> {
    let agent = api.gateway.agent();
    let consent = Consent::Ask(std::sync::Arc::new(DenyAllApprover));
    let setup = ConversationSetup {
        platform: "api_server".into(),
        ..ConversationSetup::for_cli(agent.home().path().to_owned(), consent)
    };
    // A conversation without messages is not stored.
    let row = NewSession::new(SessionId::for_gateway(&Zoned::now()), "api_server");
    let conversation = Conversation::new(agent.clone(), row, setup);
    let toolsets: Vec<Value> = conversation
        .toolsets()
        .into_iter()
        .map(|set| {
            let tools: Vec<Value> = set
                .tools
                .iter()
                .map(|tool| json!({"name": tool.name, "description": tool.description}))
                .collect();
            let (kind, status) = match &set.kind {
                ToolsetKind::BuiltIn => ("built_in", None),
                ToolsetKind::Server(server) => ("mcp", Some(server.status)),
            };
            json!({
                "name": set.name,
                "kind": kind,
                "status": status,
                "enabled": set.is_offered,
                "tools": tools,
            })
        })
        .collect();
    Json(json!({"object": "list", "toolsets": toolsets}))
}

pub(super) async fn capabilities() -> Json<Value> {
    Json(json!({
        "object": "hermes.capabilities",
        "version": env!("CARGO_PKG_VERSION"),
        "model": MODEL,
        "capabilities": [
            "runs", "run_events", "approvals", "stop", "jobs", "sessions", "chat_completions", "client_tools", "responses",
            "skills", "toolsets",
            "idempotency",
        ],
    }))
}

pub(super) async fn apply_directives(
    State(api): State<ApiState>,
    body: Payload,
) -> Result<Json<Value>, ApiError> {
    // Those in force stay until there are others that are understood.
    let directives = Directives::from_json(&body.0).map_err(|error| {
        tracing::error!(%error, "refused directives");
        ApiError::invalid("invalid_directives", error.to_string())
    })?;
    api.gateway.apply_directives(directives).await;
    Ok(Json(json!({"ok": true})))
}

/// What the operator of a Hub asks about the model and the MCP servers.
pub(super) async fn execute_request(
    State(api): State<ApiState>,
    body: Payload,
) -> Result<Json<AgentReply>, ApiError> {
    let request: AgentRequest = body.parse()?;
    Ok(Json(
        operator_requests::execute(&api.gateway, request).await,
    ))
}
