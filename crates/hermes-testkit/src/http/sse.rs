//! HTTP+SSE of 2024-11-05: one stream per client, messages posted to the address it names.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};

use super::{
    front::{HttpFront, HttpSession, ReceivedRequest},
    stream::{StreamEnd, StreamWatch, channel, event_stream},
};
use crate::script::{ScriptSession, lock};

pub(super) fn respond(front: &HttpFront, received: ReceivedRequest) -> Response {
    match (received.method.as_str(), received.path.as_str()) {
        ("GET", "/sse") => open(front, received),
        ("POST", "/message") => post(front, received),
        ("GET" | "POST", _) => StatusCode::NOT_FOUND.into_response(),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn open(front: &HttpFront, received: ReceivedRequest) -> Response {
    let key = format!("sse-{}", front.next_number());
    let session = ScriptSession::new(&key);
    let (outlet, events) = channel();
    front.script.add_listener(&session, outlet.clone());
    lock(&front.sessions).insert(
        key.clone(),
        HttpSession {
            session,
            outlet: Some(outlet),
            requests_left: None,
        },
    );
    let endpoint = format!("event: endpoint\ndata: /message?sessionId={key}\n\n");
    event_stream(
        endpoint,
        None,
        events,
        StreamWatch::new(received.entry),
        StreamEnd::Never,
    )
}

fn post(front: &HttpFront, received: ReceivedRequest) -> Response {
    let key = received.query.strip_prefix("sessionId=");
    let member = key.and_then(|key| {
        let sessions = lock(&front.sessions);
        let member = sessions.get(key)?;
        Some((member.session.clone(), member.outlet.clone()?))
    });
    let Some((session, outlet)) = member else {
        return (StatusCode::NOT_FOUND, "no such session").into_response();
    };
    let Some(message) = received.message else {
        return (StatusCode::BAD_REQUEST, "not JSON").into_response();
    };
    front.script.receive(&session, outlet, message);
    (StatusCode::ACCEPTED, "Accepted").into_response()
}
