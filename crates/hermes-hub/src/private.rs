//! The private routes, `/internal/v1`, for tenants' own agents: with a runtime key, and over a Unix socket only.
//!
//! They are the shares of the tenant's groups, from the same rows of the operation table, so both sides share the same
//! checks. The key determines the tenant; no route names one.

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use http::header;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::{
    Code, Hub, Problem, ServeError, TenantId, TokenId,
    audit::NewEntry,
    auth::{Principal, Refusal, Scope, Scopes},
    dispatch::Visitor,
    operations::{Operation, Verb, table},
    rate::Rate,
    refusals::RefusedSender,
    rest::{self, RequestId, bearer, door::too_many, problem_response},
    shapes::Via,
};

/// The routes of a tenant that its agent may use.
const SHARES: &str = "/v1/tenants/{tenant_id}/shares";
pub(crate) const AGENT_SCOPES: [Scope; 2] = [Scope::SharesRead, Scope::SharesWrite];

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
        let mut paths: BTreeMap<String, Vec<(&'static Operation, Verb)>> = BTreeMap::new();
        for operation in table().rows() {
            let Some(rest) = operation.path.strip_prefix(SHARES) else {
                continue;
            };
            let path = format!("/internal/v1/shares{rest}");
            let verbs = operation.verbs.iter().map(|verb| (operation, *verb));
            paths.entry(path).or_default().extend(verbs);
        }
        let mut router = Router::new();
        for (path, operations) in paths {
            router = router.route(&path, rest::methods(&operations));
        }
        router
            .with_state(self.clone())
            .fallback(rest::no_route)
            .layer(middleware::from_fn_with_state(self.clone(), guard))
    }
}

/// Middleware that authenticates an agent by its runtime key.
async fn guard(State(hub): State<Hub>, mut request: Request, next: Next) -> Response {
    let id = RequestId::random();
    request.extensions_mut().insert(id.clone());
    match admit(&hub, &mut request, &id).await {
        Ok(()) => next.run(request).await,
        Err(problem) => problem_response(&problem, &id),
    }
}

async fn admit(hub: &Hub, request: &mut Request, id: &RequestId) -> Result<(), Problem> {
    if hub.is_draining() {
        let message = "the Hub is shutting down; try again in a moment";
        return Err(Problem::new(Code::Unavailable, message).retry_after(5000));
    }
    let presented = request.headers().get(header::AUTHORIZATION);
    let key = presented
        .and_then(|value| value.to_str().ok())
        .and_then(bearer);
    let tenant = match hub.authenticator().tenant(key).await {
        Ok(tenant) => tenant,
        Err(refusal) => {
            if let Some(entry) = refusal_entry(&refusal) {
                let sender = RefusedSender::PrivateSocket;
                hub.note_refusal(sender, entry, request.uri().path(), id);
            }
            return Err(match refusal {
                Refusal::NoKey | Refusal::Unknown => Problem::new(
                    Code::Unauthenticated,
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
    hub.requests()
        .take(TokenId::of_tenant(&tenant), rate)
        .map_err(|empty| too_many("too many requests of this tenant", empty))?;
    request.extensions_mut().insert(visitor(&tenant));
    request.extensions_mut().insert(tenant);
    Ok(())
}

/// The caller for a tenant's agent: it may use its shares and nothing else.
fn visitor(tenant: &TenantId) -> Visitor {
    let scopes: Scopes = AGENT_SCOPES.into_iter().collect();
    let principal = Principal {
        token: TokenId::of_tenant(tenant),
        name: tenant.to_string(),
        scopes,
        tenants: Some([tenant.clone()].into()),
        expires_at: None,
        cidrs: [].into(),
    };
    Visitor {
        principal: Arc::new(principal),
        key: None,
        address: Ipv4Addr::LOCALHOST.into(),
    }
}

/// The audit entry of a refused request: only agents may use these routes.
fn refusal_entry(refusal: &Refusal) -> Option<NewEntry> {
    let (action, status) = match refusal {
        Refusal::ManagementToken => ("management_token_refused", 403),
        Refusal::State(_) => return None,
        _ => ("runtime_key_refused", 401),
    };
    Some(NewEntry::new("unknown", Via::Agent, action).denied(status))
}
