//! The operations as MCP tools, in both eras.

use std::sync::Arc;

use ::http::Method;
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use bytes::Bytes;
use hermes_mcp::serve::http::{self, HttpServeOptions};
use rmcp::ServerHandler;

use crate::{
    Hub, Problem,
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
        // `check_body` has checked the size against the current limit.
        max_body_bytes: usize::MAX,
        records: Some(Arc::new(StoredSessions::new(
            hub.shared_state(),
            &settings.mcp,
        ))),
    };
    let with_calls = |router: Router| match calls {
        CallRouting::Direct => router.layer(middleware::from_fn_with_state(
            hub.clone(),
            crate::http::mcp::fast_path::handle_call,
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
    router.layer(middleware::from_fn_with_state(hub.clone(), check_body))
}

#[derive(Debug, Clone)]
struct CheckedBody(Bytes);

/// Refuses bodies that are not strict JSON, and batches.
async fn check_body(State(hub): State<Hub>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let id = RequestId::from_request(&request);
    let (mut parts, body) = request.into_parts();
    let checked = async {
        let bytes = arguments::read_body(body, hub.settings().limits.body_bytes).await?;
        match json::check_strict(&bytes)? {
            json::JsonKind::Object => Ok(bytes),
            json::JsonKind::List => Err(Problem::invalid(
                "batches are not part of the protocol; send one message at a time",
            )),
            json::JsonKind::Scalar => Err(Problem::invalid("a message is a JSON object")),
        }
    };
    match checked.await {
        Ok(bytes) => {
            parts.extensions.insert(CheckedBody(bytes.clone()));
            next.run(Request::from_parts(parts, Body::from(bytes)))
                .await
        }
        Err(problem) => problem_response(&problem, &id),
    }
}
