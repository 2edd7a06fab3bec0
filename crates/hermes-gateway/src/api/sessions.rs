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
    Api,
    error::ApiError,
    idempotency,
    openai::{self, MODEL, Waiting},
    payload::Payload,
    query, runs,
};
use crate::runs::{Errand, Source, Started};

const USUAL_LIMIT: u32 = 50;
const MOST: u32 = 500;

pub(super) async fn list(State(api): State<Api>, uri: Uri) -> Result<Json<Value>, ApiError> {
    let limit = query::number(&uri, "limit")?.unwrap_or(USUAL_LIMIT);
    let limit = limit.clamp(1, MOST);
    let before: Option<f64> = query::number(&uri, "before")?;
    let offset = query::number(&uri, "offset")?.unwrap_or(0);
    let mut wanted = SessionQuery {
        order: SessionOrder::Active,
        limit: MOST,
        offset,
        ..SessionQuery::default()
    };
    let store = api.gateway.agent().store();
    let mut sessions = Vec::new();
    loop {
        let page = store.list_sessions(&wanted).await?;
        let is_last = page.len() < MOST as usize;
        let is_before =
            |found: &SessionSummary| before.is_none_or(|before| found.last_active < before);
        sessions.extend(page.into_iter().filter(is_before));
        if is_last || sessions.len() >= limit as usize {
            break;
        }
        wanted.offset += MOST;
    }
    sessions.truncate(limit as usize);
    let sessions: Vec<Value> = sessions
        .iter()
        .map(|found| {
            let mut shown = shown(&found.session);
            shown["preview"] = json!(found.preview);
            shown["last_active"] = json!(found.last_active);
            shown
        })
        .collect();
    Ok(Json(json!({"sessions": sessions})))
}

pub(super) async fn show(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let session = found(&api, &id).await?;
    Ok(Json(json!({"session": shown(&session)})))
}

pub(super) async fn messages(
    State(api): State<Api>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<Value>, ApiError> {
    let session = found(&api, &id).await?;
    let limit = query::number(&uri, "limit")?.unwrap_or(USUAL_LIMIT);
    let wanted = MessageQuery {
        before: query::number(&uri, "before")?.map(MessageId),
        limit: limit.clamp(1, MOST),
        ..MessageQuery::default()
    };
    let store = api.gateway.agent().store();
    let messages = store.read_messages(&session.id, &wanted).await?;
    let messages: Vec<Value> = messages.iter().map(message).collect();
    Ok(Json(json!({"messages": messages})))
}

#[derive(Deserialize)]
struct Said {
    #[serde(alias = "input")]
    message: Value,
    instructions: Option<String>,
    model: Option<String>,
}

pub(super) async fn chat(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let started = say(&api, &id, "chat", &headers, &body).await?;
    let waiting = Waiting::new(&api, &started, &headers).await?;
    let answer = waiting.answer().await?;
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
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let started = say(&api, &id, "chat/stream", &headers, &body).await?;
    let mut response = runs::stream_of(&api, &started.id, 0).await?;
    idempotency::mark_replay(&mut response, started.is_replay);
    Ok(response)
}

async fn say(
    api: &Api,
    id: &str,
    route: &str,
    headers: &HeaderMap,
    body: &Payload,
) -> Result<Started, ApiError> {
    let session = found(api, id).await?;
    let key = idempotency::key(&format!("/api/sessions/{id}/{route}"), headers, body)?;
    let said: Said = body.parse()?;
    let input = said.message.clone();
    let mut asked = openai::asked(said.message, None, Some(session.id.to_string()))?;
    asked.add_instructions(said.instructions);
    asked.model = said.model.filter(|model| model != MODEL);
    let errand = Errand::Say(Box::new(asked));
    let runs = api.gateway.runs();
    Ok(runs.start(errand, Source::Chat, input, key).await?)
}

async fn found(api: &Api, id: &str) -> Result<Session, ApiError> {
    let missing =
        || ApiError::not_found("session_not_found", format!("there is no session `{id}`"));
    let id = SessionId::parse(id).map_err(|_| missing())?;
    let session = api.gateway.agent().store().session(&id).await?;
    session.ok_or_else(missing)
}

fn shown(session: &Session) -> Value {
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

fn message(message: &StoredMessage) -> Value {
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
