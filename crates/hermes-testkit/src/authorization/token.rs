//! The token endpoint and revocation.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    client::{ClientOrigin, ClientProof, RegisteredClient},
    client_authentication::authenticate,
    device, dpop, federation,
    grant::{Grant, RefreshPolicy},
    refusal::{OAuthRefusal, add_nonce, json_response},
    setup::{Endpoint, ProofOfPossession},
    state::AuthorizationState,
};
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

pub(super) fn handle_token(state: &AuthorizationState, request: &HttpRequest) -> Response {
    match issue_grant(state, request) {
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

fn issue_grant(state: &AuthorizationState, request: &HttpRequest) -> Result<Value, OAuthRefusal> {
    let wanted = request.parameter("grant_type").unwrap_or_default();
    let Some(kind) = GrantType::ALL
        .into_iter()
        .find(|kind| kind.name() == wanted)
    else {
        return Err(OAuthRefusal::new("unsupported_grant_type", wanted));
    };
    let client = authenticate(state, request)?;
    if client.origin == ClientOrigin::Unknown && kind != GrantType::JwtBearer {
        return Err(OAuthRefusal::client("who are you?"));
    }
    if kind == GrantType::TokenExchange {
        return federation::exchange_token(state, request, &client);
    }
    let key = dpop::check_token_request(state, request, &state.url(Endpoint::Token))?;
    let (grant, renewal) = match kind {
        GrantType::AuthorizationCode => (
            redeem_code_request(state, request, &client)?,
            RefreshPolicy::Allowed,
        ),
        GrantType::RefreshToken => (
            redeem_refresh_request(state, request, &client)?,
            RefreshPolicy::Allowed,
        ),
        GrantType::ClientCredentials => (
            client_credentials_grant(state, request, &client)?,
            RefreshPolicy::None,
        ),
        GrantType::DeviceCode => (
            device::redeem_device_code(state, request, &client)?,
            RefreshPolicy::Allowed,
        ),
        GrantType::JwtBearer => (
            federation::redeem_assertion(state, request, &client)?,
            RefreshPolicy::None,
        ),
        GrantType::TokenExchange => return Err(OAuthRefusal::request("answered above")),
    };
    // What is bound to a key stays bound to it.
    if grant.key.is_some() && grant.key != key {
        return Err(OAuthRefusal::new(
            "invalid_dpop_proof",
            "bound to another key",
        ));
    }
    let grant = Grant { key, ..grant };
    let mut reply = match (kind, state.setup.refresh_tokens) {
        (GrantType::RefreshToken, super::RefreshTokens::Lasting) => {
            state.issue_tokens(&grant, RefreshPolicy::None)
        }
        _ => state.issue_tokens(&grant, renewal),
    };
    if grant.scopes.iter().any(|scope| scope == "openid") {
        let token =
            state
                .identity
                .sign_claims(&grant.subject, &grant.client, json!({}), state.now());
        state.ledger().remember(&token);
        reply["id_token"] = token.into();
    }
    Ok(reply)
}

fn redeem_code_request(
    state: &AuthorizationState,
    request: &HttpRequest,
    client: &RegisteredClient,
) -> Result<Grant, OAuthRefusal> {
    let needed = |name: &str| {
        let value = request.parameter(name);
        value.ok_or_else(|| OAuthRefusal::request(format!("`{name}` is missing")))
    };
    let (code, verifier) = (needed("code")?, needed("code_verifier")?);
    let redirect = request.parameter("redirect_uri");
    let grant = state.redeem_code(&code, &client.id, redirect.as_deref(), &verifier)?;
    check_same_resource(&grant, request)?;
    Ok(grant)
}

fn redeem_refresh_request(
    state: &AuthorizationState,
    request: &HttpRequest,
    client: &RegisteredClient,
) -> Result<Grant, OAuthRefusal> {
    let token = request
        .parameter("refresh_token")
        .ok_or_else(|| OAuthRefusal::request("`refresh_token` is missing"))?;
    let wanted = state.check_scopes(request.parameter("scope").as_deref())?;
    let mut grant = state.redeem_refresh_token(&token, &client.id)?;
    check_same_resource(&grant, request)?;
    if wanted.iter().any(|scope| !grant.scopes.contains(scope)) {
        let text = "a refresh does not widen what was granted";
        return Err(OAuthRefusal::new("invalid_scope", text));
    }
    if !wanted.is_empty() {
        grant.scopes = wanted;
    }
    Ok(grant)
}

fn client_credentials_grant(
    state: &AuthorizationState,
    request: &HttpRequest,
    client: &RegisteredClient,
) -> Result<Grant, OAuthRefusal> {
    if client.proof == ClientProof::None {
        let text = "only clients that can keep a secret";
        return Err(OAuthRefusal::new("unauthorized_client", text));
    }
    Ok(Grant {
        client: client.id.clone(),
        subject: client.id.clone(),
        scopes: state.check_scopes(request.parameter("scope").as_deref())?,
        resource: state.check_resource(request.parameter("resource"))?,
        key: None,
        family: state.ledger().new_family(),
    })
}

fn check_same_resource(grant: &Grant, request: &HttpRequest) -> Result<(), OAuthRefusal> {
    if request.parameter("resource").as_ref() == Some(&grant.resource) {
        return Ok(());
    }
    let text = format!("this was granted for {}", grant.resource);
    Err(OAuthRefusal::new("invalid_target", text))
}

/// RFC 7009: what the token belongs to is withdrawn as a whole.
pub(super) fn handle_revocation(state: &AuthorizationState, request: &HttpRequest) -> Response {
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
