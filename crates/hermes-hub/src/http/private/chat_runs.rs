//! Runs that agents begin in chats: counted against the limits of their tenant before they start, and with what they used
//! when they end. Each is counted once, however often an agent tells of it.

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{Path, State},
    response::{IntoResponse as _, Response},
};
use hermes_protocol::{ChatRunRefusal, ChatRunUse, OpenChatRuns};
use http::StatusCode;

use crate::{
    Hub, Problem, ProblemCode, RunId, TenantId,
    api_types::AccessStatus,
    http::rest::{RequestId, problem_response},
    storage::state::StateError,
};

/// Takes a run on, or says to the chat why not.
pub(super) async fn begin_run(
    State(hub): State<Hub>,
    Extension(tenant): Extension<TenantId>,
    Extension(id): Extension<RequestId>,
    Path(run): Path<String>,
) -> Response {
    match admit_run(&hub, &tenant, &run).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => problem_response(&problem, &id),
    }
}

async fn admit_run(hub: &Hub, tenant: &TenantId, run: &str) -> Result<(), Problem> {
    let run = parse_run(run)?;
    if let Some(record) = hub.tenant(tenant).await?
        && record.access.status == AccessStatus::Blocked
    {
        let usual = "This assistant is paused. Ask whoever runs it.";
        let message = record.access.message.as_deref().unwrap_or(usual);
        return Err(Problem::denied(message).with_reason(ChatRunRefusal::TenantBlocked.as_str()));
    }
    let begun = hub.state().begin_chat_run(tenant, &run).await;
    begun.map_err(|error| match error {
        // People in a chat cannot raise a limit.
        StateError::DailyLimit { limit, resets_at } => {
            tracing::info!(%tenant, reason = limit.reason(), "run of a chat refused");
            Problem::new(
                ProblemCode::ResourceExhausted,
                limit.chat_message(resets_at),
            )
            .with_reason(ChatRunRefusal::DailyLimit.as_str())
        }
        other => other.into(),
    })
}

/// The runs whose use is not known.
pub(super) async fn list_open_runs(
    State(hub): State<Hub>,
    Extension(tenant): Extension<TenantId>,
    Extension(id): Extension<RequestId>,
) -> Response {
    match hub.state().open_chat_runs(&tenant).await {
        Ok(runs) => {
            let runs = runs.iter().map(ToString::to_string).collect();
            Json(OpenChatRuns { runs }).into_response()
        }
        Err(error) => problem_response(&error.into(), &id),
    }
}

pub(super) async fn end_run(
    State(hub): State<Hub>,
    Extension(tenant): Extension<TenantId>,
    Extension(id): Extension<RequestId>,
    Path(run): Path<String>,
    body: Bytes,
) -> Response {
    match count_run(&hub, &tenant, &run, &body).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => problem_response(&problem, &id),
    }
}

async fn count_run(hub: &Hub, tenant: &TenantId, run: &str, body: &[u8]) -> Result<(), Problem> {
    let run = parse_run(run)?;
    let used: ChatRunUse = serde_json::from_slice(body)
        .map_err(|error| Problem::invalid(format!("not the use of a run: {error}")))?;
    Ok(hub.state().end_chat_run(tenant, &run, &used).await?)
}

fn parse_run(text: &str) -> Result<RunId, Problem> {
    RunId::parse(text).map_err(|error| Problem::invalid(error.to_string()))
}
