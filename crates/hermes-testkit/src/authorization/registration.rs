//! Clients that register themselves (RFC 7591).

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::client::{Client, Origin, Proof, texts};
use super::jwt::random;
use super::refusal::{Refusal, json_response};
use super::state::State;
use crate::http::HttpRequest;

pub(super) fn answer(state: &State, request: &HttpRequest) -> Response {
    if !state.setup.dynamic_registration {
        return StatusCode::NOT_FOUND.into_response();
    }
    match register(state, &request.message()) {
        Ok(description) => (StatusCode::CREATED, json_response(&description)).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

fn register(state: &State, wanted: &Value) -> Result<Value, Refusal> {
    let refused = |what: &str| Refusal::new("invalid_client_metadata", what);
    let redirects = wanted["redirect_uris"].as_array();
    let redirects = redirects.map(|list| texts(list)).unwrap_or_default();
    if redirects.is_empty() {
        return Err(Refusal::new("invalid_redirect_uri", "there is none"));
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
    let id = format!("client-{}", random());
    let mut description = wanted.clone();
    description["client_id"] = id.clone().into();
    description["token_endpoint_auth_method"] = method.into();
    let proof = match method {
        "none" => Proof::None,
        "client_secret_basic" | "client_secret_post" => {
            let secret = ledger.new_secret("secret");
            description["client_secret"] = secret.clone().into();
            description["client_secret_expires_at"] = json!(0);
            Proof::Secret(secret)
        }
        _ => return Err(refused("such clients are entered by hand")),
    };
    ledger.add_client(Client {
        id,
        proof,
        method: Some(method.to_owned()),
        redirects,
        origin: Origin::Registered,
    });
    Ok(description)
}
