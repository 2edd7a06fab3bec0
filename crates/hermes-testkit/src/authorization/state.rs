//! The way of a request to an authorization server: recorded, failed as ordered, then answered.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::SystemTime,
};

use axum::{
    Router,
    body::to_bytes,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tokio::net::TcpListener;

use super::{
    authorize,
    client::{self, RegisteredClient},
    device,
    jwt::{TokenIssuer, random_token},
    ledger::Ledger,
    metadata,
    setup::{AuthorizationSetup, Discovery, Endpoint, EndpointFault},
    token,
};
use crate::{http::HttpRequest, script::lock};

/// No test sends more than this.
const BODY_LIMIT: usize = 1 << 20;

/// What all requests share.
pub(super) struct AuthorizationState {
    pub(super) origin: String,
    pub(super) setup: AuthorizationSetup,
    pub(super) identity: TokenIssuer,
    /// What proofs have to hold, where that is asked for.
    pub(super) nonce: String,
    ledger: Mutex<Ledger>,
    requests: Mutex<Vec<HttpRequest>>,
}

/// Seconds since 1970.
pub(super) fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0))
}

impl AuthorizationState {
    pub(super) fn new(origin: &str, setup: AuthorizationSetup) -> Self {
        Self {
            identity: TokenIssuer::new(&format!("{origin}{}", setup.path)),
            origin: origin.to_owned(),
            nonce: random_token(),
            ledger: Mutex::new(Ledger::new(setup.lifetime)),
            requests: Mutex::default(),
            setup,
        }
    }

    pub(super) fn issuer(&self) -> String {
        self.identity.name().to_owned()
    }

    /// The time by the server's clock.
    pub(super) fn now(&self) -> i64 {
        unix_now() + self.ledger().clock_offset
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    pub(super) fn requests(&self) -> Vec<HttpRequest> {
        lock(&self.requests).clone()
    }

    pub(super) fn client(&self, id: &str) -> Option<RegisteredClient> {
        let ledger = self.ledger();
        let published = || {
            let document = ledger.documents.get(id)?;
            RegisteredClient::published(id, document).filter(|_| self.setup.client_documents)
        };
        ledger.clients.get(id).cloned().or_else(published)
    }

    pub(super) fn url(&self, endpoint: Endpoint) -> String {
        format!("{}{}", self.origin, self.path(endpoint).unwrap_or_default())
    }

    /// The address that metadata give for an endpoint.
    pub(super) fn advertised(&self, endpoint: Endpoint) -> String {
        self.advertised_fault(endpoint)
            .unwrap_or_else(|| self.url(endpoint))
    }

    /// The address that is given instead of the true one.
    pub(super) fn advertised_fault(&self, endpoint: Endpoint) -> Option<String> {
        match self.ledger().faults.get(&endpoint) {
            Some(EndpointFault::Advertised(url)) => Some(url.clone()),
            _ => None,
        }
    }

    fn path(&self, endpoint: Endpoint) -> Option<String> {
        let base = &self.setup.path;
        let name = match endpoint {
            Endpoint::Challenge | Endpoint::Resource | Endpoint::ResourceMetadata => return None,
            Endpoint::ServerMetadata => {
                return match self.setup.discovery {
                    Discovery::OAuth => {
                        Some(format!("/.well-known/oauth-authorization-server{base}"))
                    }
                    Discovery::OpenIdInserted => {
                        Some(format!("/.well-known/openid-configuration{base}"))
                    }
                    Discovery::OpenIdAppended => {
                        Some(format!("{base}/.well-known/openid-configuration"))
                    }
                    Discovery::None => None,
                };
            }
            Endpoint::Registration => "register",
            Endpoint::Authorization => "authorize",
            Endpoint::Token => "token",
            Endpoint::DeviceCode => "device",
            Endpoint::Activation => "activate",
            Endpoint::Revocation => "revoke",
            Endpoint::Keys => "jwks",
        };
        Some(format!("{base}/{name}"))
    }

    pub(super) fn endpoint(&self, path: &str) -> Option<Endpoint> {
        [
            Endpoint::ServerMetadata,
            Endpoint::Registration,
            Endpoint::Authorization,
            Endpoint::Token,
            Endpoint::DeviceCode,
            Endpoint::Activation,
            Endpoint::Revocation,
            Endpoint::Keys,
        ]
        .into_iter()
        .find(|endpoint| self.path(*endpoint).as_deref() == Some(path))
    }

    /// Answers a request, once it is recorded.
    pub(super) async fn handle_request(&self, request: HttpRequest) -> Response {
        lock(&self.requests).push(request.clone());
        let Some(endpoint) = self.endpoint(request.path_without_query()) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        if let Some(response) = self.fault_response(endpoint, &request).await {
            return response;
        }
        match (request.method.as_str(), endpoint) {
            ("GET", Endpoint::ServerMetadata) => metadata::server_metadata(self),
            ("GET", Endpoint::Keys) => metadata::key_set(self),
            ("GET", Endpoint::Authorization) => authorize::handle_authorize(self, &request),
            ("GET", Endpoint::Activation) => device::handle_activation(self, &request),
            ("POST", Endpoint::Registration) => client::handle_registration(self, &request),
            ("POST", Endpoint::DeviceCode) => device::handle_device_code(self, &request),
            ("POST", Endpoint::Token) => token::handle_token(self, &request),
            ("POST", Endpoint::Revocation) => token::handle_revocation(self, &request),
            _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        }
    }

    /// What was ordered for an endpoint instead of its answer.
    pub(super) async fn fault_response(
        &self,
        endpoint: Endpoint,
        request: &HttpRequest,
    ) -> Option<Response> {
        let fault = self.ledger().faults.get(&endpoint).cloned()?;
        match fault {
            EndpointFault::Status(status) => StatusCode::from_u16(status)
                .ok()
                .map(IntoResponse::into_response),
            EndpointFault::Hang => std::future::pending().await,
            EndpointFault::Delay(time) => {
                tokio::time::sleep(time).await;
                None
            }
            EndpointFault::Redirect(to) => {
                let location = [(header::LOCATION, to)];
                Some((StatusCode::TEMPORARY_REDIRECT, location).into_response())
            }
            EndpointFault::Junk(body) => {
                let kind = [(header::CONTENT_TYPE, "application/json")];
                Some((kind, body).into_response())
            }
            EndpointFault::Repeat => {
                let form = url::form_urlencoded::parse(request.body.as_bytes());
                let form: Vec<String> = form
                    .map(|(name, value)| format!("{name} {value}"))
                    .collect();
                let header = request.header("authorization").unwrap_or_default();
                let description = format!("no {} with {header}", form.join(" and "));
                let body = json!({ "error": "invalid_request", "error_description": description });
                Some((StatusCode::BAD_REQUEST, axum::Json(body)).into_response())
            }
            EndpointFault::Advertised(_) => None,
        }
    }
}

/// Answers requests.
pub(super) async fn serve(
    socket: TcpListener,
    state: Arc<AuthorizationState>,
) -> std::io::Result<()> {
    let router = Router::new().fallback(async move |request: Request| {
        let (parts, body) = request.into_parts();
        let Ok(body) = to_bytes(body, BODY_LIMIT).await else {
            return StatusCode::PAYLOAD_TOO_LARGE.into_response();
        };
        state.handle_request(HttpRequest::read(&parts, &body)).await
    });
    axum::serve(socket, router).await
}
