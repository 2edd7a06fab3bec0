//! The token endpoint and revocation.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::client::{Client, Origin, Proof};
use super::client_authentication::authenticate;
use super::fault::Endpoint;
use super::grant::{Grant, Renewal};
use super::refusal::{Refusal, add_nonce, json_response};
use super::setup::ProofOfPossession;
use super::state::State;
use super::{device, dpop, federation};
use crate::http::HttpRequest;

/// The ways to a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GrantType {
    AuthorizationCode,
    RefreshToken,
    ClientCredentials,
    DeviceCode,
    JwtBearer,
    TokenExchange,
}

impl GrantType {
    const ALL: [Self; 6] = [
        Self::AuthorizationCode,
        Self::RefreshToken,
        Self::ClientCredentials,
        Self::DeviceCode,
        Self::JwtBearer,
        Self::TokenExchange,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::RefreshToken => "refresh_token",
            Self::ClientCredentials => "client_credentials",
            Self::DeviceCode => "urn:ietf:params:oauth:grant-type:device_code",
            Self::JwtBearer => "urn:ietf:params:oauth:grant-type:jwt-bearer",
            Self::TokenExchange => "urn:ietf:params:oauth:grant-type:token-exchange",
        }
    }
}

pub(super) fn answer(state: &State, request: &HttpRequest) -> Response {
    match grant(state, request) {
        Ok(reply) => {
            let mut response = json_response(&reply);
            if state.setup.proof == ProofOfPossession::RequiredWithNonce {
                add_nonce(&mut response, &state.nonce);
            }
            response
        }
        Err(refusal) => refusal.into_response(),
    }
}

fn grant(state: &State, request: &HttpRequest) -> Result<Value, Refusal> {
    let wanted = request.parameter("grant_type").unwrap_or_default();
    let Some(kind) = GrantType::ALL
        .into_iter()
        .find(|kind| kind.name() == wanted)
    else {
        return Err(Refusal::new("unsupported_grant_type", wanted));
    };
    let client = authenticate(state, request)?;
    if client.origin == Origin::Unknown && kind != GrantType::JwtBearer {
        return Err(Refusal::client("who are you?"));
    }
    if kind == GrantType::TokenExchange {
        return federation::exchange(state, request, &client);
    }
    let key = dpop::at_the_token_endpoint(state, request, &state.url(Endpoint::Token))?;
    let (grant, renewal) = match kind {
        GrantType::AuthorizationCode => (by_code(state, request, &client)?, Renewal::Usual),
        GrantType::RefreshToken => (by_refresh(state, request, &client)?, Renewal::Usual),
        GrantType::ClientCredentials => (by_itself(state, request, &client)?, Renewal::None),
        GrantType::DeviceCode => (device::grant(state, request, &client)?, Renewal::Usual),
        GrantType::JwtBearer => (
            federation::by_assertion(state, request, &client)?,
            Renewal::None,
        ),
        GrantType::TokenExchange => return Err(Refusal::request("answered above")),
    };
    // What is bound to a key stays bound to it.
    if grant.key.is_some() && grant.key != key {
        return Err(Refusal::new("invalid_dpop_proof", "bound to another key"));
    }
    let grant = Grant { key, ..grant };
    let mut reply = match (kind, state.setup.refresh_tokens) {
        (GrantType::RefreshToken, super::RefreshTokens::Lasting) => {
            state.issue(&grant, Renewal::None)
        }
        _ => state.issue(&grant, renewal),
    };
    if grant.scopes.iter().any(|scope| scope == "openid") {
        let token = state
            .identity
            .signed(&grant.subject, &grant.client, json!({}), state.now());
        state.ledger().remember(&token);
        reply["id_token"] = token.into();
    }
    Ok(reply)
}

fn by_code(state: &State, request: &HttpRequest, client: &Client) -> Result<Grant, Refusal> {
    let needed = |name: &str| {
        let value = request.parameter(name);
        value.ok_or_else(|| Refusal::request(format!("`{name}` is missing")))
    };
    let (code, verifier) = (needed("code")?, needed("code_verifier")?);
    let redirect = request.parameter("redirect_uri");
    let grant = state.redeem(&code, &client.id, redirect.as_deref(), &verifier)?;
    same_resource(&grant, request)?;
    Ok(grant)
}

fn by_refresh(state: &State, request: &HttpRequest, client: &Client) -> Result<Grant, Refusal> {
    let token = request
        .parameter("refresh_token")
        .ok_or_else(|| Refusal::request("`refresh_token` is missing"))?;
    let wanted = state.known_scopes(request.parameter("scope").as_deref())?;
    let mut grant = state.renew(&token, &client.id)?;
    same_resource(&grant, request)?;
    if wanted.iter().any(|scope| !grant.scopes.contains(scope)) {
        let text = "a refresh does not widen what was granted";
        return Err(Refusal::new("invalid_scope", text));
    }
    if !wanted.is_empty() {
        grant.scopes = wanted;
    }
    Ok(grant)
}

fn by_itself(state: &State, request: &HttpRequest, client: &Client) -> Result<Grant, Refusal> {
    if client.proof == Proof::None {
        let text = "only clients that can keep a secret";
        return Err(Refusal::new("unauthorized_client", text));
    }
    Ok(Grant {
        client: client.id.clone(),
        subject: client.id.clone(),
        scopes: state.known_scopes(request.parameter("scope").as_deref())?,
        resource: state.known_resource(request.parameter("resource"))?,
        key: None,
        family: state.ledger().new_family(),
    })
}

fn same_resource(grant: &Grant, request: &HttpRequest) -> Result<(), Refusal> {
    if request.parameter("resource").as_ref() == Some(&grant.resource) {
        return Ok(());
    }
    let text = format!("this was granted for {}", grant.resource);
    Err(Refusal::new("invalid_target", text))
}

/// RFC 7009: what the token belongs to is withdrawn as a whole.
pub(super) fn revoke(state: &State, request: &HttpRequest) -> Response {
    let client = match authenticate(state, request) {
        Ok(client) => client,
        Err(refusal) => return refusal.into_response(),
    };
    let token = request.parameter("token").unwrap_or_default();
    let mut ledger = state.ledger();
    let access = ledger.access.get(&token).map(|access| &access.grant);
    let refresh = ledger.refresh.get(&token).map(|refresh| &refresh.grant);
    let found = access.or(refresh);
    let family = found
        .filter(|grant| grant.client == client.id)
        .map(|grant| grant.family);
    ledger.withdrawn.extend(family);
    // An unknown token is as good as revoked.
    StatusCode::OK.into_response()
}
