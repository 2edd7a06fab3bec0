//! `/api/sessions`: lists and shows the sessions of the home, and sends messages in one.

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, Uri},
    response::{IntoResponse as _, Response},
};
use hermes_store::{
    Content, MessageId, MessageQuery, Session, SessionId, SessionOrder, SessionQuery,
    SessionSummary, StoredMessage,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    ApiState,
    error::ApiError,
    idempotency, openai,
    openai::{MODEL, RunWaiter},
    payload::Payload,
    runs,
};
use crate::{
    api::payload,
    runs::{RunInput, RunSource, StartedRun},
};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 500;

pub(super) async fn list(State(api): State<ApiState>, uri: Uri) -> Result<Json<Value>, ApiError> {
    let limit = payload::parse_number(&uri, "limit")?.unwrap_or(DEFAULT_LIMIT);
    let limit = limit.clamp(1, MAX_LIMIT);
    let before: Option<f64> = payload::parse_number(&uri, "before")?;
    let offset = payload::parse_number(&uri, "offset")?.unwrap_or(0);
    let mut wanted = SessionQuery {
        order: SessionOrder::Active,
        limit: MAX_LIMIT,
        offset,
        ..SessionQuery::default()
    };
    let store = api.gateway.agent().store();
    let mut sessions = Vec::new();
    loop {
        let page = store.list_sessions(&wanted).await?;
        let is_last = page.len() < MAX_LIMIT as usize;
        let is_before =
            |session: &SessionSummary| before.is_none_or(|before| session.last_active < before);
        sessions.extend(page.into_iter().filter(is_before));
        if is_last || sessions.len() >= limit as usize {
            break;
        }
        wanted.offset += MAX_LIMIT;
    }
    sessions.truncate(limit as usize);
    let sessions: Vec<Value> = sessions
        .iter()
        .map(|session| {
            let mut shown = session_json(&session.session);
            shown["preview"] = json!(session.preview);
            shown["last_active"] = json!(session.last_active);
            shown
        })
        .collect();
    Ok(Json(json!({"sessions": sessions})))
}

pub(super) async fn show(
    State(api): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let session = find_session(&api, &id).await?;
    Ok(Json(json!({"session": session_json(&session)})))
}

pub(super) async fn messages(
    State(api): State<ApiState>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<Value>, ApiError> {
    let session = find_session(&api, &id).await?;
    let limit = payload::parse_number(&uri, "limit")?.unwrap_or(DEFAULT_LIMIT);
    let wanted = MessageQuery {
        before: payload::parse_number(&uri, "before")?.map(MessageId),
        limit: limit.clamp(1, MAX_LIMIT),
        ..MessageQuery::default()
    };
    let store = api.gateway.agent().store();
    let messages = store.read_messages(&session.id, &wanted).await?;
    let messages: Vec<Value> = messages.iter().map(message_json).collect();
    Ok(Json(json!({"messages": messages})))
}

#[derive(Deserialize)]
struct ChatRequest {
    #[serde(alias = "input")]
    message: Value,
    instructions: Option<String>,
    model: Option<String>,
}

pub(super) async fn chat(
    State(api): State<ApiState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let started = start_turn(&api, &id, "chat", &headers, &body).await?;
    let waiting = RunWaiter::new(&api, &started, &headers).await?;
    let answer = waiting.wait_for_answer().await?;
    let mut response = Json(json!({
        "object": "hermes.session.chat",
        "session_id": id,
        "run_id": started.id,
        "output": answer.output,
        "usage": answer.usage,
    }))
    .into_response();
    idempotency::mark_replay(&mut response, started.is_replay);
    Ok(response)
}

pub(super) async fn chat_stream(
    State(api): State<ApiState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let started = start_turn(&api, &id, "chat/stream", &headers, &body).await?;
    let mut response = runs::stream_events(&api, &started.id, 0).await?;
    idempotency::mark_replay(&mut response, started.is_replay);
    Ok(response)
}

async fn start_turn(
    api: &ApiState,
    id: &str,
    route: &str,
    headers: &HeaderMap,
    body: &Payload,
) -> Result<StartedRun, ApiError> {
    let session = find_session(api, id).await?;
    let key = idempotency::parse_key(&format!("/api/sessions/{id}/{route}"), headers, body)?;
    let request: ChatRequest = body.parse()?;
    let input = request.message.clone();
    let mut turn = openai::parse_input(request.message, None, Some(session.id.to_string()))?;
    turn.add_instructions(request.instructions);
    turn.model = request.model.filter(|model| model != MODEL);
    let run_input = RunInput::Turn(Box::new(turn));
    let runs = api.gateway.runs();
    Ok(runs.start(run_input, RunSource::Chat, input, key).await?)
}

async fn find_session(api: &ApiState, id: &str) -> Result<Session, ApiError> {
    let missing =
        || ApiError::not_found("session_not_found", format!("there is no session `{id}`"));
    let id = SessionId::parse(id).map_err(|_| missing())?;
    let session = api.gateway.agent().store().session(&id).await?;
    session.ok_or_else(missing)
}

fn session_json(session: &Session) -> Value {
    json!({
        "id": session.id.as_str(),
        "source": session.source,
        "title": session.title,
        "model": session.model,
        "started_at": session.started_at,
        "ended_at": session.ended_at,
        "end_reason": session.end_reason,
        "message_count": session.message_count,
        "tool_call_count": session.tool_call_count,
        "parent_session_id": session.parent.as_ref().map(SessionId::as_str),
        "cwd": session.cwd,
        "input_tokens": session.usage.input_tokens,
        "output_tokens": session.usage.output_tokens,
    })
}

fn message_json(message: &StoredMessage) -> Value {
    let body = &message.body;
    json!({
        "id": message.id.0,
        "role": body.role.as_str(),
        "content": match &body.content {
            None => Value::Null,
            Some(Content::Text(text)) => json!(text),
            Some(Content::Parts(parts)) => parts.clone(),
        },
        "tool_calls": body.tool_calls,
        "tool_call_id": body.tool_call_id,
        "tool_name": body.tool_name,
        "finish_reason": body.finish_reason,
        "timestamp": message.timestamp,
    })
}
