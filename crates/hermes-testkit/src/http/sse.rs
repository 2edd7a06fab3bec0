//! HTTP+SSE of 2024-11-05: one stream per client, messages posted to the address it names.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::front::{Front, Member, Received};
use super::stream::{Ends, Watch, channel, event_stream};
use crate::script::{Session, lock};

pub(super) fn respond(front: &Front, received: Received) -> Response {
    match (received.method.as_str(), received.path.as_str()) {
        ("GET", "/sse") => open(front, received),
        ("POST", "/message") => post(front, received),
        ("GET" | "POST", _) => StatusCode::NOT_FOUND.into_response(),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn open(front: &Front, received: Received) -> Response {
    let key = format!("sse-{}", front.next_number());
    let session = Session::new(&key);
    let (outlet, events) = channel();
    front.script.add_listener(&session, outlet.clone());
    lock(&front.sessions).insert(
        key.clone(),
        Member {
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
        Watch::new(received.entry),
        Ends::Never,
    )
}

fn post(front: &Front, received: Received) -> Response {
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
