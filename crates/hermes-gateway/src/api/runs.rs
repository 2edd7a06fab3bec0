//! `/v1/runs`: start, show, watch, decide, stop.

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use futures::stream;
use hermes_store::runtime::{Answer, Run, RunEvent};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Api,
    error::ApiError,
    idempotency,
    openai::{self, MODEL},
    payload::Payload,
    query, sse,
};
use crate::runs::{Decision, Errand, Source, Watching, Which};

const LAST_EVENT_ID: &str = "last-event-id";

#[derive(Deserialize)]
struct NewRun {
    input: Value,
    instructions: Option<String>,
    conversation_history: Option<Value>,
    session_id: Option<String>,
    previous_response_id: Option<String>,
    model: Option<String>,
}

pub(super) async fn create(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let key = idempotency::key("/v1/runs", &headers, &body)?;
    let new: NewRun = body.parse()?;
    let input = new.input.clone();
    let session = match (&new.session_id, &new.previous_response_id) {
        (Some(id), _) => Some(id.clone()),
        (None, Some(run)) => Some(session_of(&api, run).await?),
        (None, None) => None,
    };
    let mut asked = openai::asked(new.input, new.conversation_history, session)?;
    asked.add_instructions(new.instructions);
    asked.model = new.model.filter(|model| model != MODEL);
    let errand = Errand::Say(Box::new(asked));
    let runs = api.gateway.runs();
    let started = runs.start(errand, Source::Api, input, key).await?;
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
pub(super) async fn session_of(api: &Api, run: &str) -> Result<String, ApiError> {
    let found = found(api, run).await?;
    let session = found.session.map(|session| session.to_string());
    session.ok_or_else(|| ApiError::member("previous_response_id", "that run has no session"))
}

async fn found(api: &Api, id: &str) -> Result<Run, ApiError> {
    let run = api.gateway.runs().run(id).await?;
    run.ok_or_else(|| ApiError::not_found("run_not_found", format!("there is no run `{id}`")))
}

pub(super) async fn show(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let run = found(&api, &id).await?;
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
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ApiError> {
    let seen = headers
        .get(LAST_EVENT_ID)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let after = match seen {
        Some(seen) => seen,
        None => query::number(&uri, "after")?.unwrap_or(0),
    };
    stream_of(&api, &id, after).await
}

/// The events of a run after this one, as a stream.
pub(super) async fn stream_of(api: &Api, id: &str, after: i64) -> Result<Response, ApiError> {
    let watching = api.gateway.runs().watch(id, after).await?;
    let watching = watching
        .ok_or_else(|| ApiError::not_found("run_not_found", format!("there is no run `{id}`")))?;
    Ok(sse::response(stream(watching)))
}

/// The events of a watcher, until the run ends.
fn stream(watching: Watching) -> impl futures::Stream<Item = String> + Send {
    stream::unfold(Some(watching), async |watching| {
        let mut watching = watching?;
        match tokio::time::timeout(sse::KEEPALIVE, watching.next()).await {
            Err(_) => Some((sse::STILL_HERE.to_owned(), Some(watching))),
            Ok(Ok(Some(event))) => Some((line(&event), Some(watching))),
            Ok(Ok(None)) => Some((sse::CLOSED.to_owned(), None)),
            Ok(Err(error)) => {
                tracing::error!(%error, "reading the events of a run failed");
                None
            }
        }
    })
}

fn line(event: &RunEvent) -> String {
    let body = Value::Object(event.body.clone());
    format!("id: {}\ndata: {body}\n\n", event.seq)
}

#[derive(Deserialize)]
struct Said {
    choice: String,
    approval_id: Option<String>,
    #[serde(default)]
    all: bool,
    reason: Option<String>,
}

pub(super) async fn decide(
    State(api): State<Api>,
    Path(id): Path<String>,
    body: Payload,
) -> Result<Json<Value>, ApiError> {
    let said: Said = body.parse()?;
    let choice = match said.choice.trim().to_lowercase().as_str() {
        "once" | "approve" | "allow" => Answer::Once,
        "session" => Answer::Session,
        "always" => Answer::Always,
        "deny" => Answer::Deny,
        _ => {
            // An unknown run is reported first.
            found(&api, &id).await?;
            return Err(ApiError::invalid(
                "invalid_approval_choice",
                "`choice` must be one of once, session, always, deny",
            ));
        }
    };
    let which = match said.approval_id {
        Some(id) => Which::Id(id),
        None if said.all => Which::All,
        None => Which::Oldest,
    };
    let decision = Decision {
        choice,
        which,
        reason: said.reason,
    };
    let resolved = api.gateway.runs().decide(&id, &decision).await?;
    Ok(Json(json!({
        "object": "hermes.run.approval_response",
        "run_id": id,
        "choice": choice.as_str(),
        "resolved": resolved,
    })))
}

pub(super) async fn stop(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    api.gateway.runs().stop(&id).await?;
    Ok(Json(json!({"run_id": id, "status": "stopping"})))
}
