//! Streamable HTTP in both eras: MCP sessions for legacy clients, self-contained POSTs for stateless ones.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    front::{HttpFront, HttpSession, ReceivedRequest},
    stream::{SseEvent, StreamEnd, StreamWatch, channel, event_stream},
};
use crate::{
    behaviour::{DiscoverBehaviour, Era, ReplyFormat},
    script::{ScriptSession, lock},
    wire,
};

const SESSION_ID: &str = "mcp-session-id";

/// The code with which servers say that a session id is missing or unknown.
const BAD_SESSION: i64 = -32001;

pub(super) async fn respond(front: &Arc<HttpFront>, received: ReceivedRequest) -> Response {
    if received.path != "/mcp" {
        return StatusCode::NOT_FOUND.into_response();
    }
    match received.method.as_str() {
        "POST" => post(front, received).await,
        "GET" => open_stream(front, received),
        "DELETE" => end_session(front, &received),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

async fn post(front: &Arc<HttpFront>, received: ReceivedRequest) -> Response {
    let ReceivedRequest {
        headers,
        message,
        entry,
        postpone,
        ..
    } = received;
    let Some(message) = message else {
        let error = wire::RpcError::new(wire::PARSE_ERROR, "not JSON");
        return json(StatusCode::BAD_REQUEST, &error.response(&Value::Null));
    };
    let http = &front.behaviour().http;
    if http.check_headers && !accepts_both(&headers) {
        return StatusCode::NOT_ACCEPTABLE.into_response();
    }
    let stateless = is_stateless(front, &message);
    if stateless
        && http.check_headers
        && message.get("id").is_some()
        && let Err(reason) = check_headers(&headers, &message)
    {
        let error = wire::RpcError::new(wire::HEADER_MISMATCH, reason);
        return json(StatusCode::BAD_REQUEST, &error.response(&message["id"]));
    }
    let is_initialize = message["method"] == "initialize";
    let well_formed = wire::is_well_formed(&message["params"]);
    let session = if stateless {
        ScriptSession::new(format!("post-{}", front.next_number()))
    } else if is_initialize || !http.sessions {
        begin_session(front)
    } else {
        match find_session(front, &headers, &message) {
            Ok(session) => session,
            Err(refusal) => return refusal.response(&message["id"]),
        }
    };
    let (outlet, mut events) = channel();
    let is_request = message.get("id").is_some() && message.get("method").is_some();
    let id = message["id"].clone();
    let mut watch = StreamWatch::new(entry);
    if stateless {
        watch = watch.cancelling(&front.script, session.key(), id);
    }
    front.script.receive(&session, outlet, message);
    if !is_request {
        watch.complete();
        return StatusCode::ACCEPTED.into_response();
    }
    if let Some(retry) = postpone
        && !stateless
    {
        watch.complete();
        return postponed_response(front, retry, events);
    }
    let first = events.recv().await;
    let mut response = match first {
        Some(SseEvent::Message(answer)) if wire::is_final(&answer) => {
            let status = if stateless {
                status(&answer, well_formed)
            } else {
                StatusCode::OK
            };
            if http.reply == ReplyFormat::Json || status != StatusCode::OK {
                watch.complete();
                json(status, &answer)
            } else {
                let first = Some(SseEvent::Message(answer));
                event_stream(String::new(), first, events, watch, StreamEnd::WithAnswer)
            }
        }
        first => event_stream(String::new(), first, events, watch, StreamEnd::WithAnswer),
    };
    if is_initialize
        && http.sessions
        && session.is_initialized()
        && let Ok(id) = session.key().parse()
    {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// Ends the stream with the id under which its answer can be fetched.
fn postponed_response(
    front: &HttpFront,
    retry: u64,
    events: UnboundedReceiver<SseEvent>,
) -> Response {
    let id = format!("event-{}", front.next_number());
    let body = format!("id: {id}\nretry: {retry}\ndata:\n\n");
    lock(&front.postponed).insert(id, events);
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// Whether a message needs no session: one of the stateless era, or a probe that is to be answered oddly.
fn is_stateless(front: &HttpFront, message: &Value) -> bool {
    let behaviour = front.behaviour();
    let discover = message["method"] == "server/discover";
    match behaviour.era {
        Era::Legacy => discover && behaviour.discover != DiscoverBehaviour::Ok,
        Era::Stateless => true,
        Era::Both => discover || wire::stateless_version(&message["params"]).is_some(),
    }
}

/// The status that goes with an answer of the stateless era.
fn status(answer: &Value, well_formed: bool) -> StatusCode {
    match wire::error_code(answer) {
        Some(wire::UNSUPPORTED_VERSION | wire::MISSING_CAPABILITY | wire::HEADER_MISMATCH) => {
            StatusCode::BAD_REQUEST
        }
        // A wrong argument is an answer; only a request without its metadata is a bad request.
        Some(wire::INVALID_PARAMS) if !well_formed => StatusCode::BAD_REQUEST,
        Some(wire::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

fn accepts_both(headers: &HeaderMap) -> bool {
    let accept = text(headers, header::ACCEPT.as_str()).unwrap_or_default();
    accept.contains("*/*")
        || accept.contains("application/json") && accept.contains("text/event-stream")
}

/// Checks that the headers of a stateless request say what its body says.
fn check_headers(headers: &HeaderMap, message: &Value) -> Result<(), String> {
    let params = &message["params"];
    let method = message["method"].as_str().unwrap_or_default();
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        _ => None,
    };
    let expected = [
        ("MCP-Protocol-Version", wire::stateless_version(params)),
        ("Mcp-Method", Some(method)),
        ("Mcp-Name", name),
    ];
    for (header, expected) in expected {
        let Some(expected) = expected else { continue };
        let given = text(headers, header).ok_or_else(|| format!("missing {header}"))?;
        if decoded(given) != expected {
            return Err(format!("{header} is {given}, the body says {expected}"));
        }
    }
    Ok(())
}

/// A header value, out of its wrapping if it has one.
fn decoded(value: &str) -> String {
    value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="))
        .and_then(|encoded| STANDARD.decode(encoded).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_else(|| value.to_owned())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The session of a new client; without session ids everybody shares one.
fn begin_session(front: &HttpFront) -> Arc<ScriptSession> {
    let http = &front.behaviour().http;
    let mut sessions = lock(&front.sessions);
    if !http.sessions
        && let Some(member) = sessions.get("shared")
    {
        return Arc::clone(&member.session);
    }
    let number = front.next_number();
    let key = if http.sessions {
        format!("session-{number}")
    } else {
        "shared".to_owned()
    };
    let session = ScriptSession::new(&key);
    let mortal = front.is_first_session() || http.forget_every_session;
    let member = HttpSession {
        session: Arc::clone(&session),
        outlet: None,
        requests_left: http.forget_session_after.filter(|_| mortal),
    };
    sessions.insert(key, member);
    session
}

/// Why a request finds no session.
struct SessionRefusal(StatusCode, &'static str);

impl SessionRefusal {
    fn response(&self, id: &Value) -> Response {
        json(
            self.0,
            &wire::RpcError::new(BAD_SESSION, self.1).response(id),
        )
    }
}

/// The session that a request belongs to, or the refusal. Counts down to the end of a mortal one.
fn find_session(
    front: &HttpFront,
    headers: &HeaderMap,
    message: &Value,
) -> Result<Arc<ScriptSession>, SessionRefusal> {
    let Some(key) = text(headers, SESSION_ID) else {
        return Err(SessionRefusal(StatusCode::BAD_REQUEST, "no session id"));
    };
    let mut sessions = lock(&front.sessions);
    let Some(member) = sessions.get_mut(key) else {
        let status = front.behaviour().http.unknown_session;
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::NOT_FOUND);
        return Err(SessionRefusal(status, "no such session"));
    };
    if let Some(left) = &mut member.requests_left
        && message.get("id").is_some()
    {
        if *left == 0 {
            sessions.remove(key);
            front.script.remove_listener(key);
            return Err(SessionRefusal(StatusCode::NOT_FOUND, "session forgotten"));
        }
        *left -= 1;
    }
    Ok(Arc::clone(&member.session))
}

fn json(status: StatusCode, body: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, wire::message_text(body)).into_response()
}

/// The legacy stream for messages that are not replies.
fn open_stream(front: &HttpFront, received: ReceivedRequest) -> Response {
    let http = &front.behaviour().http;
    if !http.get_stream || front.behaviour().era == Era::Stateless {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let session = if http.sessions {
        match find_session(front, &received.headers, &Value::Null) {
            Ok(session) => session,
            Err(refusal) => return refusal.response(&Value::Null),
        }
    } else {
        begin_session(front)
    };
    let last_event = text(&received.headers, "last-event-id").unwrap_or_default();
    if let Some(events) = lock(&front.postponed).remove(last_event) {
        let watch = StreamWatch::new(received.entry);
        return event_stream(String::new(), None, events, watch, StreamEnd::WithAnswer);
    }
    let (outlet, events) = channel();
    front.script.add_listener(&session, outlet);
    let opening = match http.retry_ms {
        Some(retry) => format!("id: 0\nretry: {retry}\ndata:\n\n"),
        // A comment, so that the client has the headers at once.
        None => ": open\n\n".to_owned(),
    };
    event_stream(
        opening,
        None,
        events,
        StreamWatch::new(received.entry),
        StreamEnd::Never,
    )
}

fn end_session(front: &HttpFront, received: &ReceivedRequest) -> Response {
    let Some(key) = text(&received.headers, SESSION_ID) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    if lock(&front.sessions).remove(key).is_none() {
        return StatusCode::NOT_FOUND.into_response();
    }
    front.script.remove_listener(key);
    StatusCode::NO_CONTENT.into_response()
}
