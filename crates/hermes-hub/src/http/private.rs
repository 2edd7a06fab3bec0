//! The private routes, `/internal/v1`, for tenants' own agents: with a runtime key, and over a Unix socket only.
//!
//! They are the shares of the tenant's groups, from the same rows of the operation table, so both sides share the same
//! checks; the bots that its agent is connected to; and the runs that begin in chats. The key determines the tenant; no
//! route names one.

mod chat_runs;

use std::collections::BTreeMap;

use axum::{
    Extension, Router,
    body::Body,
    extract::{Path, Request, State},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use hermes_config::{
    bot_lock::BotId,
    trace_context::{self, RelayError},
};
use http::{StatusCode, header};
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::{
    Hub, Problem, ProblemCode, ServeError, TenantId, TokenId,
    api_types::Via,
    auth::{AuthError, Caller, RefusedSender, rate_limit::Rate},
    http::{
        middleware::too_many_requests,
        rest::{self, RequestId, bearer_token, problem_response},
    },
    operations::{HttpMethod, Operation, table},
    storage::audit::NewAuditEntry,
};

/// The routes of a tenant that its agent may use.
const SHARES_ROUTE: &str = "/v1/tenants/{tenant_id}/shares";
/// A bot of a messaging platform, by its [`BotId`].
const BOTS_ROUTE: &str = "/internal/v1/bots/{bot}";
const CHECKPOINTS_ROUTE: &str = "/internal/v1/home/checkpoints";
const CHAT_RUNS_ROUTE: &str = "/internal/v1/chat-runs";
const TRACES_ROUTE: &str = "/internal/v1/traces";
const CHAT_RUN_ROUTE: &str = "/internal/v1/chat-runs/{run}";

impl Hub {
    /// Serves the private routes until `stop` is cancelled, then waits for requests in progress.
    pub async fn serve_private(
        &self,
        listener: UnixListener,
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        self.serve_unix(listener, self.private_router(), stop).await;
        Ok(())
    }

    /// The private routes. Mount them only on a local socket.
    pub fn private_router(&self) -> Router {
        let mut paths: BTreeMap<String, Vec<(&'static Operation, HttpMethod)>> = BTreeMap::new();
        for operation in table().rows() {
            let Some(rest) = operation.path.strip_prefix(SHARES_ROUTE) else {
                continue;
            };
            let path = format!("/internal/v1/shares{rest}");
            let verbs = operation.methods.iter().map(|verb| (operation, *verb));
            paths.entry(path).or_default().extend(verbs);
        }
        let mut router = Router::new();
        for (path, operations) in paths {
            router = router.route(&path, rest::method_router(&operations));
        }
        router
            .route(BOTS_ROUTE, post(claim_bot).delete(release_bot))
            .route(CHECKPOINTS_ROUTE, post(save_home))
            .route(CHAT_RUNS_ROUTE, get(chat_runs::list_open_runs))
            .route(
                CHAT_RUN_ROUTE,
                post(chat_runs::begin_run).put(chat_runs::end_run),
            )
            .route(TRACES_ROUTE, post(relay_spans))
            .with_state(self.clone())
            .fallback(rest::route_not_found)
            .layer(middleware::from_fn_with_state(self.clone(), authenticate))
    }
}

/// Middleware that authenticates an agent by its runtime key.
async fn authenticate(State(hub): State<Hub>, mut request: Request, next: Next) -> Response {
    let id = RequestId::random();
    request.extensions_mut().insert(id.clone());
    match check_request(&hub, &mut request, &id).await {
        Ok(()) => next.run(request).await,
        Err(problem) => problem_response(&problem, &id),
    }
}

async fn check_request(hub: &Hub, request: &mut Request, id: &RequestId) -> Result<(), Problem> {
    // What agents did until they were stopped is told to the end.
    if hub.is_draining() && request.uri().path() != TRACES_ROUTE {
        let message = "the Hub is shutting down; try again in a moment";
        return Err(Problem::new(ProblemCode::Unavailable, message).with_retry_after(5000));
    }
    let presented = request.headers().get(header::AUTHORIZATION);
    let key = presented
        .and_then(|value| value.to_str().ok())
        .and_then(bearer_token);
    let tenant = match hub.authenticator().authenticate_tenant(key).await {
        Ok(tenant) => tenant,
        Err(refusal) => {
            if let Some(entry) = auth_failure_entry(&refusal) {
                let sender = RefusedSender::PrivateSocket;
                hub.record_refusal(sender, entry, request.uri().path(), id);
            }
            return Err(match refusal {
                AuthError::MissingKey | AuthError::UnknownKey => Problem::new(
                    ProblemCode::Unauthenticated,
                    "present the tenant's runtime key as `Authorization: Bearer …`",
                ),
                other => other.into(),
            });
        }
    };
    let limits = hub.settings().limits;
    let rate = Rate {
        per_second: f64::from(limits.rps_per_token),
        burst: f64::from(limits.burst),
    };
    hub.access()
        .request_limiter
        .check(TokenId::for_tenant(&tenant), rate)
        .map_err(|empty| too_many_requests("too many requests of this tenant", empty))?;
    request.extensions_mut().insert(Caller::agent_of(&tenant));
    request.extensions_mut().insert(tenant);
    Ok(())
}

/// Gives a bot to the caller, unless another tenant or gateway uses it.
async fn claim_bot(
    State(hub): State<Hub>,
    Extension(tenant): Extension<TenantId>,
    Extension(id): Extension<RequestId>,
    Path(bot): Path<String>,
) -> Response {
    let claimed = parse_bot(&bot).and_then(|bot| hub.agents().bots().claim(bot, &tenant));
    match claimed {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => problem_response(&problem, &id),
    }
}

async fn release_bot(
    State(hub): State<Hub>,
    Extension(tenant): Extension<TenantId>,
    Extension(id): Extension<RequestId>,
    Path(bot): Path<String>,
) -> Response {
    match parse_bot(&bot) {
        Ok(bot) => {
            hub.agents().bots().release(&bot, &tenant);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(problem) => problem_response(&problem, &id),
    }
}

/// Stores the caller's home, so that another node can go on with it. Where homes stay, there is nothing to do.
async fn save_home(
    State(hub): State<Hub>,
    Extension(tenant): Extension<TenantId>,
    Extension(id): Extension<RequestId>,
) -> Response {
    if !hub.leases().is_shared() {
        return StatusCode::NO_CONTENT.into_response();
    }
    match hub.leases().save_home(&tenant).await {
        Ok(()) => StatusCode::CREATED.into_response(),
        Err(problem) => problem_response(&problem, &id),
    }
}

fn parse_bot(text: &str) -> Result<BotId, Problem> {
    BotId::parse(text).ok_or_else(|| Problem::invalid("a bot is named by 32 hexadecimal digits"))
}

/// The audit entry of a refused request: only agents may use these routes.
fn auth_failure_entry(refusal: &AuthError) -> Option<NewAuditEntry> {
    let (action, status) = match refusal {
        AuthError::ManagementToken => ("management_token_refused", 403),
        AuthError::State(_) => return None,
        _ => ("runtime_key_refused", 401),
    };
    Some(NewAuditEntry::new("unknown", Via::Agent, action).denied(status))
}

/// Agents send at most 512 spans at once, which are a fraction of this.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Takes a batch, or says that it is lost. An agent never waits for the collector.
async fn relay_spans(
    Extension(tenant): Extension<TenantId>,
    Extension(id): Extension<RequestId>,
    body: Body,
) -> Response {
    match relay_batch(&tenant, body).await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(problem) => problem_response(&problem, &id),
    }
}

async fn relay_batch(tenant: &TenantId, body: Body) -> Result<(), Problem> {
    let Some(export) = trace_context::export() else {
        return Err(Problem::not_found("this Hub exports no traces"));
    };
    let batch = axum::body::to_bytes(body, MAX_BATCH_BYTES)
        .await
        .map_err(|_| Problem::invalid("the batch is not complete, or larger than 4 MiB"))?;
    export
        .relay(tenant.as_str(), &batch)
        .map_err(|error| match error {
            RelayError::Malformed => Problem::invalid(error.to_string()),
            RelayError::Full => Problem::new(ProblemCode::Unavailable, error.to_string()),
        })
}
