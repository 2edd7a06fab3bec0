//! An MCP server that wants tokens.

use std::sync::Arc;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::json;

use super::{
    AuthorizationServer, dpop,
    grant::Grant,
    refusal::{OAuthRefusal, add_nonce, json_response},
    setup::{Endpoint, ProofOfPossession},
    state::AuthorizationState,
};
use crate::{
    behaviour::Behaviour,
    http::{HttpRequest, RequestGate},
};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// An MCP server and what it asks of tokens.
#[derive(Default)]
pub struct Resource {
    /// What the MCP server does.
    pub behaviour: Behaviour,
    /// The scopes in its metadata.
    pub scopes: Vec<String>,
    /// The scope without which nothing works.
    pub scope: Option<String>,
    /// Tools that need a scope of their own.
    pub tool_scopes: Vec<(String, String)>,
    /// What a refusal says.
    pub challenge: Challenge,
    pub metadata: MetadataLocation,
    others: Vec<Arc<AuthorizationState>>,
}

impl Resource {
    /// The default with a change.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut resource = Self::default();
        change(&mut resource);
        resource
    }

    /// Takes tokens of another server too.
    #[must_use]
    pub fn trusting(mut self, other: &AuthorizationServer) -> Self {
        self.others.push(Arc::clone(&other.state));
        self
    }
}

/// What a refusal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Challenge {
    /// Where the metadata are, and which scope is needed.
    #[default]
    Helpful,
    /// That a bearer token is needed.
    Plain,
}

/// Where the metadata of an MCP server are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetadataLocation {
    /// Below the well-known path, with the path of the MCP endpoint.
    #[default]
    WithPath,
    /// At the well-known path itself.
    Root,
    /// Nowhere.
    None,
}

/// Stands before the MCP server.
pub(super) struct ResourceGate {
    origin: String,
    resource: Resource,
    state: Arc<AuthorizationState>,
    shares_origin: bool,
}

impl ResourceGate {
    pub(super) fn new(origin: &str, state: &Arc<AuthorizationState>, resource: Resource) -> Self {
        let url = format!("{origin}/mcp");
        for server in resource.others.iter().chain([state]) {
            server.ledger().resources.push(url.clone());
        }
        Self {
            origin: origin.to_owned(),
            resource,
            state: Arc::clone(state),
            shares_origin: false,
        }
    }

    /// Answers for the authorization server too.
    pub(super) fn sharing_origin(mut self) -> Self {
        self.shares_origin = true;
        self
    }

    fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    fn metadata_path(&self) -> Option<String> {
        match self.resource.metadata {
            MetadataLocation::WithPath => Some(format!("{WELL_KNOWN}/mcp")),
            MetadataLocation::Root => Some(WELL_KNOWN.to_owned()),
            MetadataLocation::None => None,
        }
    }

    /// RFC 9728.
    fn metadata(&self) -> Response {
        let resource = self.state.advertised_fault(Endpoint::Resource);
        let server = self.state.advertised_fault(Endpoint::ResourceMetadata);
        let mut document = json!({
            "resource": resource.unwrap_or_else(|| self.url()),
            "authorization_servers": [server.unwrap_or_else(|| self.state.issuer())],
            "bearer_methods_supported": ["header"],
        });
        if !self.resource.scopes.is_empty() {
            document["scopes_supported"] = json!(self.resource.scopes);
        }
        if self.needs_proof() {
            document["dpop_bound_access_tokens_required"] = true.into();
            document["dpop_signing_alg_values_supported"] = json!(["ES256"]);
        }
        json_response(&document)
    }

    fn needs_proof(&self) -> bool {
        matches!(
            self.state.setup.proof,
            ProofOfPossession::Required | ProofOfPossession::RequiredWithNonce
        )
    }

    /// What speaks against a request.
    fn reject_request(&self, request: &HttpRequest) -> Option<Response> {
        let header = request.header("authorization").unwrap_or_default();
        let (scheme, token) = header.split_once(' ').unwrap_or_default();
        if token.is_empty() {
            return Some(self.refusal(StatusCode::UNAUTHORIZED, None));
        }
        let unauthorized = || self.refusal(StatusCode::UNAUTHORIZED, Some("invalid_token"));
        let servers = self.resource.others.iter().chain([&self.state]);
        let mut found = servers.filter_map(|server| Some((server, server.grant_of_token(token)?)));
        let Some((server, grant)) = found.next() else {
            return Some(unauthorized());
        };
        if grant.resource != self.url() {
            return Some(unauthorized());
        }
        if let Some(key) = &grant.key {
            let proof = dpop::check_proof(server, request, &self.url(), Some(token));
            match proof {
                Ok(found) if scheme == "DPoP" && found == *key => {}
                Ok(_) => return Some(unauthorized()),
                Err(refusal) => return Some(self.proof_refusal(&refusal)),
            }
        } else if scheme != "Bearer" || self.needs_proof() {
            return Some(unauthorized());
        }
        self.missing_scope(request, &grant)
    }

    fn missing_scope(&self, request: &HttpRequest, grant: &Grant) -> Option<Response> {
        let message = request.message();
        let tool = message["params"]["name"].as_str();
        let tool = tool.filter(|_| message["method"] == "tools/call");
        let own = self.resource.tool_scopes.iter();
        let own = own.filter(|(name, _)| Some(name.as_str()) == tool);
        let needed = own.map(|(_, scope)| scope).chain(&self.resource.scope);
        for scope in needed {
            if !grant.scopes.contains(scope) {
                let error = "insufficient_scope";
                return Some(self.challenge(StatusCode::FORBIDDEN, "Bearer", Some(error), scope));
            }
        }
        None
    }

    fn refusal(&self, status: StatusCode, error: Option<&str>) -> Response {
        let scheme = if self.needs_proof() { "DPoP" } else { "Bearer" };
        let scope = self.resource.scope.as_deref().unwrap_or_default();
        self.challenge(status, scheme, error, scope)
    }

    fn proof_refusal(&self, refusal: &OAuthRefusal) -> Response {
        let status = StatusCode::UNAUTHORIZED;
        let mut response = self.challenge(status, "DPoP", Some(refusal.error), "");
        if let Some(nonce) = &refusal.nonce {
            add_nonce(&mut response, nonce);
        }
        response
    }

    fn challenge(
        &self,
        status: StatusCode,
        scheme: &str,
        error: Option<&str>,
        scope: &str,
    ) -> Response {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(error.map(|error| format!("error=\"{error}\"")));
        if self.resource.challenge == Challenge::Helpful {
            let true_place = || Some(format!("{}{}", self.origin, self.metadata_path()?));
            let place = self
                .state
                .advertised_fault(Endpoint::Challenge)
                .or_else(true_place);
            parts.extend(place.map(|place| format!("resource_metadata=\"{place}\"")));
            if !scope.is_empty() {
                parts.push(format!("scope=\"{scope}\""));
            }
        }
        let challenge = format!("{scheme} {}", parts.join(", "));
        let challenge = [(header::WWW_AUTHENTICATE, challenge.trim().to_owned())];
        (status, challenge).into_response()
    }
}

impl RequestGate for ResourceGate {
    fn answer<'r>(&'r self, request: &'r HttpRequest) -> BoxFuture<'r, Option<Response>> {
        async move {
            if Some(request.path_without_query()) == self.metadata_path().as_deref() {
                let failure = self
                    .state
                    .fault_response(Endpoint::ResourceMetadata, request);
                return Some(failure.await.unwrap_or_else(|| self.metadata()));
            }
            if self.shares_origin && self.state.endpoint(request.path_without_query()).is_some() {
                return Some(self.state.handle_request(request.clone()).await);
            }
            if request.path_without_query() == "/mcp" {
                return self.reject_request(request);
            }
            None
        }
        .boxed()
    }
}
