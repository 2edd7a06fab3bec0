//! `/v1/runs`: start, show, watch, decide, stop.

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use futures::stream;
use hermes_protocol::{ApprovalChoice, ApprovalDecision, PromptInput};
use hermes_store::{runtime, runtime::Run};
use serde_json::{Value, json};

use super::{ApiState, error::ApiError, idempotency, openai, openai::MODEL, payload::Payload};
use crate::{
    api::payload,
    runs::{RunInput, RunSource, RunWatcher},
};

const LAST_EVENT_ID: &str = "last-event-id";

pub(super) async fn create(
    State(api): State<ApiState>,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let key = idempotency::parse_key("/v1/runs", &headers, &body)?;
    let new: PromptInput = body.parse_document(api.gateway.control_mode())?;
    let input = new.input.clone();
    let session = match (&new.session_id, &new.previous_response_id) {
        (Some(id), _) => Some(id.clone()),
        // A response is a run, by another name.
        (None, Some(id)) => {
            let digits = id.strip_prefix("resp_");
            let run = digits.map(|digits| format!("run_{digits}"));
            Some(find_session(&api, run.as_deref().unwrap_or(id)).await?)
        }
        (None, None) => None,
    };
    let mut request = openai::parse_input(new.input, new.conversation_history, session)?;
    request.add_instructions(new.instructions);
    request.model = new.model.filter(|model| model != MODEL);
    let run_input = RunInput::Turn(Box::new(request));
    let runs = api.gateway.runs();
    let started = runs.start(run_input, RunSource::Api, input, key).await?;
    let body = json!({
        "run_id": started.id,
        "status": "started",
        "session_id": started.session.as_ref().map(ToString::to_string),
    });
    let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
    idempotency::mark_replay(&mut response, started.is_replay);
    Ok(response)
}

/// The session of an earlier run, to continue in.
pub(super) async fn find_session(api: &ApiState, run: &str) -> Result<String, ApiError> {
    let found = find_run(api, run).await?;
    let session = found.session.map(|session| session.to_string());
    session
        .ok_or_else(|| ApiError::invalid_member("previous_response_id", "that run has no session"))
}

async fn find_run(api: &ApiState, id: &str) -> Result<Run, ApiError> {
    let run = api.gateway.runs().find_run(id).await?;
    run.ok_or_else(|| ApiError::not_found("run_not_found", format!("there is no run `{id}`")))
}

pub(super) async fn show(
    State(api): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let run = find_run(&api, &id).await?;
    Ok(Json(json!({
        "object": "hermes.run",
        "run_id": run.id,
        "session_id": run.session.as_ref().map(ToString::to_string),
        "status": run.status.as_str(),
        "source": run.source,
        "job_id": run.job,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "last_event": run.last_event,
        "last_event_id": run.last_seq,
        "output": run.output,
        "usage": run.usage,
        "error": run.error,
    })))
}

pub(super) async fn events(
    State(api): State<ApiState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ApiError> {
    let seen = headers
        .get(LAST_EVENT_ID)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let after = match seen {
        Some(seen) => seen,
        None => payload::parse_number(&uri, "after")?.unwrap_or(0),
    };
    stream_events(&api, &id, after).await
}

/// The events of a run after this one, as a stream.
pub(super) async fn stream_events(
    api: &ApiState,
    id: &str,
    after: i64,
) -> Result<Response, ApiError> {
    let watching = api.gateway.runs().watch_events(id, after).await?;
    let watching = watching
        .ok_or_else(|| ApiError::not_found("run_not_found", format!("there is no run `{id}`")))?;
    Ok(payload::event_stream_response(event_stream(watching)))
}

/// The events of a watcher, until the run ends.
fn event_stream(watching: RunWatcher) -> impl futures::Stream<Item = String> + Send {
    stream::unfold(Some(watching), async |watching| {
        let mut watching = watching?;
        match tokio::time::timeout(payload::KEEPALIVE_INTERVAL, watching.next()).await {
            Err(_) => Some((payload::KEEPALIVE_COMMENT.to_owned(), Some(watching))),
            Ok(Ok(Some(event))) => Some((format_event(&event), Some(watching))),
            Ok(Ok(None)) => Some((payload::CLOSED_COMMENT.to_owned(), None)),
            Ok(Err(error)) => {
                tracing::error!(%error, "failed to read the events of a run");
                None
            }
        }
    })
}

fn format_event(event: &runtime::RunEvent) -> String {
    let body = Value::Object(event.body.clone());
    format!("id: {}\ndata: {body}\n\n", event.seq)
}

pub(super) async fn decide(
    State(api): State<ApiState>,
    Path(id): Path<String>,
    body: Payload,
) -> Result<Json<Value>, ApiError> {
    let words: Value = body.parse()?;
    if let Some(word) = words["choice"].as_str()
        && ApprovalChoice::parse(word).is_err()
    {
        // An unknown run is reported first.
        find_run(&api, &id).await?;
        return Err(ApiError::invalid(
            "invalid_approval_choice",
            "`choice` must be one of once, session, always, deny",
        ));
    }
    let decision: ApprovalDecision = body.parse_document(api.gateway.control_mode())?;
    let resolved = api.gateway.runs().decide(&id, &decision).await?;
    Ok(Json(json!({
        "object": "hermes.run.approval_response",
        "run_id": id,
        "choice": decision.choice.as_str(),
        "resolved": resolved,
    })))
}

pub(super) async fn stop(
    State(api): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    api.gateway.runs().stop(&id).await?;
    Ok(Json(json!({"run_id": id, "status": "stopping"})))
}
