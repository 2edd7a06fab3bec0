//! The operations as MCP tools, in both eras.

use std::sync::Arc;

use ::http::{Method, request::Parts};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use bytes::Bytes;
use hermes_serve::{HttpServeOptions, Principal, http};
use rmcp::ServerHandler;

use crate::{
    Hub, Problem,
    auth::Caller,
    http::{
        json,
        mcp::session_records::StoredSessions,
        rest::{RequestId, arguments, problem_response},
    },
};

mod connection;
mod fast_path;
mod session_records;
mod tools;

/// Each MCP session costs some memory and a task.
const MAX_SESSIONS: usize = 10_000;

pub(crate) fn router(hub: &Hub) -> Router {
    let maker = hub.clone();
    let make_handler = move || connection::McpConnection::new(maker.clone());
    mount_handler(hub, make_handler, CallRouting::Direct)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallRouting {
    /// Plain calls are answered by the Hub itself.
    Direct,
    /// All calls go to the handler.
    ByHandler,
}

/// The route `/mcp` with a handler. The middleware has checked host, origin and token.
pub(crate) fn mount_handler<S: ServerHandler>(
    hub: &Hub,
    make_handler: impl Fn() -> S + Send + Sync + 'static,
    calls: CallRouting,
) -> Router {
    let settings = hub.settings();
    let own = settings.public_host().to_owned();
    let options = HttpServeOptions {
        path: "/mcp".into(),
        allowed_hosts: settings
            .allowed_hosts
            .iter()
            .cloned()
            .chain([own])
            .collect(),
        allowed_origins: settings
            .allowed_origins
            .iter()
            .cloned()
            .chain([settings.public_url.clone()])
            .collect(),
        session_idle_timeout: std::time::Duration::from_secs(settings.mcp.session_idle_seconds),
        max_sessions: MAX_SESSIONS,
        max_sessions_per_principal: settings.mcp.sessions_per_token,
        // `receive_message` has checked the size against the current limit.
        max_body_bytes: usize::MAX,
        records: Some(Arc::new(StoredSessions::new(
            hub.shared_state(),
            &settings.mcp,
        ))),
    };
    let with_calls = |router: Router| match calls {
        CallRouting::Direct => router.layer(middleware::from_fn_with_state(
            hub.clone(),
            crate::http::mcp::fast_path::handle_session_call,
        )),
        CallRouting::ByHandler => router,
    };
    let (router, sessions) = http::mount(make_handler, options, hub.shutdown(), with_calls);
    hub.set_mcp_sessions(sessions.clone());
    hub.tasks()
        .spawn(crate::http::mcp::session_records::sync_streams(
            hub.clone(),
            sessions,
        ));
    router.layer(middleware::from_fn_with_state(
        (hub.clone(), calls),
        receive_message,
    ))
}

#[derive(Debug, Clone)]
struct CheckedBody(Bytes);

/// Answers plain calls of the stateless era. Of everything else, it refuses bodies that are not strict JSON, and batches.
async fn receive_message(
    State((hub, calls)): State<(Hub, CallRouting)>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    if parts.method != Method::POST {
        insert_owner(&mut parts);
        return next.run(Request::from_parts(parts, body)).await;
    }
    let limit = hub.settings().limits.body_bytes;
    let received = arguments::read_body(body, limit).await;
    if calls == CallRouting::Direct
        && let Ok(bytes) = &received
        && let Some(response) = fast_path::answer_stateless_call(&hub, &parts, bytes).await
    {
        return response;
    }
    match received.and_then(check_message) {
        Ok(bytes) => {
            insert_owner(&mut parts);
            parts.extensions.insert(CheckedBody(bytes.clone()));
            next.run(Request::from_parts(parts, Body::from(bytes)))
                .await
        }
        Err(problem) => {
            let id = parts.extensions.get().cloned();
            problem_response(&problem, &id.unwrap_or_else(RequestId::random))
        }
    }
}

fn check_message(bytes: Bytes) -> Result<Bytes, Problem> {
    match json::check_strict(&bytes)? {
        json::JsonKind::Object => Ok(bytes),
        json::JsonKind::List => Err(Problem::invalid(
            "batches are not part of the protocol; send one message at a time",
        )),
        json::JsonKind::Scalar => Err(Problem::invalid("a message is a JSON object")),
    }
}

/// Says whose sessions a request may use: those of its token.
fn insert_owner(parts: &mut Parts) {
    if let Some(caller) = parts.extensions.get::<Caller>() {
        let owner = Principal::new(caller.principal.token.as_str());
        parts.extensions.insert(owner);
    }
}
