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
use hermes_mcp::serve::http::{self, HttpOptions};
use rmcp::ServerHandler;

use self::records::Records;
use crate::{
    Hub, Problem, json,
    rest::{RequestId, arguments, problem_response},
};

mod answer;
mod connection;
mod direct;
mod records;
mod tools;

pub(crate) use connection::token_ends;

/// Each MCP session costs some memory and a task.
const MOST_SESSIONS: usize = 10_000;

pub(crate) fn router(hub: &Hub) -> Router {
    let maker = hub.clone();
    let make_handler = move || connection::Connection::new(maker.clone());
    mount(hub, make_handler, Calls::Direct)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    /// Plain calls are answered by the Hub itself.
    Direct,
    /// All calls go to the handler.
    ByHandler,
}

/// The route `/mcp` with a handler. The middleware has checked host, origin and token.
pub(crate) fn mount<S: ServerHandler>(
    hub: &Hub,
    make_handler: impl Fn() -> S + Send + Sync + 'static,
    calls: Calls,
) -> Router {
    let settings = hub.settings();
    let own = settings.public_host().to_owned();
    let options = HttpOptions {
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
        session_idle: std::time::Duration::from_secs(settings.mcp.session_idle_seconds),
        most_sessions: MOST_SESSIONS,
        most_sessions_per_principal: settings.mcp.sessions_per_token,
        // `check_body` has checked the size against the current limit.
        most_body_bytes: usize::MAX,
        records: Some(Arc::new(Records::new(hub.shared_state(), &settings.mcp))),
    };
    let with_calls = |router: Router| match calls {
        Calls::Direct => router.layer(middleware::from_fn_with_state(hub.clone(), direct::call)),
        Calls::ByHandler => router,
    };
    let (router, sessions) = http::mount(make_handler, options, hub.stop(), with_calls);
    hub.set_mcp_sessions(sessions.clone());
    hub.work()
        .spawn(records::follow_streams(hub.clone(), sessions));
    router.layer(middleware::from_fn_with_state(hub.clone(), check_body))
}

#[derive(Debug, Clone)]
struct CheckedBody(Bytes);

/// Refuses bodies that are not strict JSON, and batches.
async fn check_body(State(hub): State<Hub>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let id = RequestId::of(&request);
    let (mut parts, body) = request.into_parts();
    let checked = async {
        let bytes = arguments::read(body, hub.settings().limits.body_bytes).await?;
        match json::check(&bytes)? {
            json::Root::Object => Ok(bytes),
            json::Root::List => Err(Problem::invalid(
                "batches are not part of the protocol; send one message at a time",
            )),
            json::Root::Scalar => Err(Problem::invalid("a message is a JSON object")),
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
