//! Clients that register themselves (RFC 7591).

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    client::{ClientOrigin, ClientProof, RegisteredClient, string_values},
    jwt::random_token,
    refusal::{OAuthRefusal, json_response},
    state::AuthorizationState,
};
use crate::http::HttpRequest;

pub(super) fn handle_registration(state: &AuthorizationState, request: &HttpRequest) -> Response {
    if !state.setup.dynamic_registration {
        return StatusCode::NOT_FOUND.into_response();
    }
    match register_client(state, &request.message()) {
        Ok(description) => (StatusCode::CREATED, json_response(&description)).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

fn register_client(state: &AuthorizationState, wanted: &Value) -> Result<Value, OAuthRefusal> {
    let refused = |what: &str| OAuthRefusal::new("invalid_client_metadata", what);
    let redirects = wanted["redirect_uris"].as_array();
    let redirects = redirects
        .map(|list| string_values(list))
        .unwrap_or_default();
    if redirects.is_empty() {
        return Err(OAuthRefusal::new("invalid_redirect_uri", "there is none"));
    }
    // What a client does not say is meant to be this.
    let method = wanted["token_endpoint_auth_method"]
        .as_str()
        .unwrap_or("client_secret_basic");
    let offered = &state.setup.authentication_methods;
    if !offered.iter().any(|offered| offered == method) {
        return Err(refused("the way to authenticate is not offered"));
    }
    let mut scopes = wanted["scope"].as_str().unwrap_or_default().split(' ');
    if let Some(known) = &state.setup.registered_scopes
        && scopes.any(|scope| !scope.is_empty() && !known.iter().any(|known| known == scope))
    {
        return Err(refused("only some scopes can be registered"));
    }
    let mut ledger = state.ledger();
    let id = format!("client-{}", random_token());
    let mut description = wanted.clone();
    description["client_id"] = id.clone().into();
    description["token_endpoint_auth_method"] = method.into();
    let proof = match method {
        "none" => ClientProof::None,
        "client_secret_basic" | "client_secret_post" => {
            let secret = ledger.new_secret("secret");
            description["client_secret"] = secret.clone().into();
            description["client_secret_expires_at"] = json!(0);
            ClientProof::Secret(secret)
        }
        _ => return Err(refused("such clients are entered by hand")),
    };
    ledger.add_client(RegisteredClient {
        id,
        proof,
        method: Some(method.to_owned()),
        redirects,
        origin: ClientOrigin::Registered,
    });
    Ok(description)
}
