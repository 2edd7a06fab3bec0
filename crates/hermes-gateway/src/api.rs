//! The local HTTP API of a gateway: runs, approvals, jobs, sessions, and OpenAI's protocols.
//!
//! Every request but `/health` presents a token. JSON is snake_case, errors are `{"error": {…}}`.

mod client_tools;
mod error;
mod idempotency;
mod jobs;
mod listen;
mod lists;
mod openai;
mod payload;
mod peer;
mod responses;
mod runs;
mod sessions;
mod trace;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{get, post, put},
};
use hermes_config::Secret;
use hermes_serve::http::{TokenDigest, bearer_token};
use serde_json::json;

pub use self::listen::{ApiListener, ListenAddressError, check_address, serve};
use self::{error::ApiError, openai::MODEL};
pub use crate::api::peer::AllowedHosts;
use crate::gateway::{ControlMode, Gateway};

/// Shorter tokens can be guessed.
pub const MIN_KEY_CHARS: usize = 16;

#[derive(Clone)]
struct ApiState {
    gateway: Gateway,
    token: TokenDigest,
    host: Arc<AllowedHosts>,
}

pub fn router(gateway: Gateway, token: &Secret<String>, host: AllowedHosts) -> Router {
    let api = ApiState {
        token: TokenDigest::new(token),
        host: Arc::new(host),
        gateway,
    };
    let mut router = Router::new()
        .route("/health/detailed", get(lists::health))
        .route("/v1/runs", post(runs::create))
        .route("/v1/runs/{id}", get(runs::show))
        .route("/v1/runs/{id}/events", get(runs::events))
        .route("/v1/runs/{id}/approval", post(runs::decide))
        .route("/v1/runs/{id}/stop", post(runs::stop))
        .route("/api/jobs", get(jobs::list).post(jobs::create))
        .route(
            "/api/jobs/{id}",
            get(jobs::show).patch(jobs::change_job).delete(jobs::remove),
        )
        .route("/api/jobs/{id}/pause", post(jobs::pause))
        .route("/api/jobs/{id}/resume", post(jobs::resume))
        .route("/api/jobs/{id}/run", post(jobs::run))
        .route("/api/sessions", get(sessions::list))
        .route("/api/sessions/{id}", get(sessions::show))
        .route("/api/sessions/{id}/messages", get(sessions::messages))
        .route("/api/sessions/{id}/chat", post(sessions::chat))
        .route(
            "/api/sessions/{id}/chat/stream",
            post(sessions::chat_stream),
        )
        .route("/v1/chat/completions", post(openai::complete))
        .route("/v1/responses", post(responses::create))
        .route("/v1/models", get(openai::models))
        .route(&format!("/v1/models/{MODEL}"), get(openai::model))
        .route("/v1/skills", get(lists::skills))
        .route("/v1/toolsets", get(lists::toolsets))
        .route("/v1/capabilities", get(lists::capabilities));
    let is_directed = matches!(api.gateway.control_mode(), ControlMode::Hub { .. });
    if is_directed {
        router = router
            .route("/internal/directives", put(lists::apply_directives))
            .route("/internal/requests", post(lists::execute_request));
    }
    router = router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .route_layer(middleware::from_fn_with_state(api.clone(), check_token));
    if hermes_config::trace_context::is_on() {
        router = router.route_layer(middleware::from_fn(trace::trace_request));
    }
    if is_directed {
        router = router.layer(middleware::from_fn_with_state(
            api.clone(),
            peer::check_peer,
        ));
    }
    router
        .route("/health", get(health_check))
        .layer(middleware::from_fn_with_state(api.clone(), check_host))
        .with_state(api)
}

async fn health_check() -> Json<serde_json::Value> {
    Json(json!({"status": "ok"}))
}

async fn not_found(State(api): State<ApiState>, request: Request) -> Response {
    // Without a token, not even the existence of a route is revealed.
    if let Err(refused) = authenticate(&api, &request) {
        return refused.into_response();
    }
    let path = request.uri().path();
    ApiError::not_found("not_found", format!("unknown path `{path}`")).into_response()
}

async fn method_not_allowed(State(api): State<ApiState>, request: Request) -> ApiError {
    if let Err(refused) = authenticate(&api, &request) {
        return refused;
    }
    let method = request.method();
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "invalid_request_error",
        "method_not_allowed",
        format!("`{method}` is not allowed here"),
    )
}

async fn check_host(State(api): State<ApiState>, request: Request, next: Next) -> Response {
    if api.host.allows(request.headers(), request.uri()) {
        return next.run(request).await;
    }
    let error = ApiError::new(
        StatusCode::FORBIDDEN,
        "permission_error",
        "host_not_allowed",
        "this host name is not allowed; add it to `api_server.allowed_hosts` in config.yaml",
    );
    error.into_response()
}

async fn check_token(State(api): State<ApiState>, request: Request, next: Next) -> Response {
    match authenticate(&api, &request) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

fn authenticate(api: &ApiState, request: &Request) -> Result<(), ApiError> {
    match bearer_token(request.headers()) {
        Some(token) if api.token.matches(token) => Ok(()),
        Some(_) => Err(ApiError::unauthorized("the token is wrong")),
        None => Err(ApiError::unauthorized(
            "present the key as `Authorization: Bearer …`",
        )),
    }
}
