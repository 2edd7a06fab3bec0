//! What an authorization server says of itself.

use axum::response::Response;
use serde_json::{Value, json};

use super::{
    refusal::json_response,
    setup::{Discovery, Endpoint, ProofOfPossession, RefreshTokens},
    state::AuthorizationState,
    token::GrantType,
};

/// RFC 8414, or the discovery document of OpenID Connect.
pub(super) fn server_metadata(state: &AuthorizationState) -> Response {
    let setup = &state.setup;
    let issuer = state.advertised_fault(Endpoint::ServerMetadata);
    let mut grants = vec![
        GrantType::AuthorizationCode,
        GrantType::ClientCredentials,
        GrantType::JwtBearer,
        GrantType::TokenExchange,
    ];
    if setup.refresh_tokens != RefreshTokens::None {
        grants.push(GrantType::RefreshToken);
    }
    if setup.device_codes {
        grants.push(GrantType::DeviceCode);
    }
    let grants: Vec<&str> = grants.into_iter().map(GrantType::name).collect();
    let mut document = json!({
        "issuer": issuer.unwrap_or_else(|| state.issuer()),
        "authorization_endpoint": state.advertised(Endpoint::Authorization),
        "token_endpoint": state.advertised(Endpoint::Token),
        "revocation_endpoint": state.advertised(Endpoint::Revocation),
        "jwks_uri": state.advertised(Endpoint::Keys),
        "response_types_supported": ["code"],
        "grant_types_supported": grants,
        "token_endpoint_auth_methods_supported": setup.authentication_methods,
        "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
        "scopes_supported": setup.scopes,
    });
    let mut add = |field: &str, value: Value| document[field] = value;
    if !setup.challenge_methods.is_empty() {
        let methods = json!(setup.challenge_methods);
        add("code_challenge_methods_supported", methods);
    }
    if setup.issuer_parameter {
        add(
            "authorization_response_iss_parameter_supported",
            true.into(),
        );
    }
    if setup.dynamic_registration {
        let url = state.advertised(Endpoint::Registration);
        add("registration_endpoint", url.into());
    }
    if setup.client_documents {
        add("client_id_metadata_document_supported", true.into());
    }
    if setup.device_codes {
        let url = state.advertised(Endpoint::DeviceCode);
        add("device_authorization_endpoint", url.into());
    }
    if setup.proof != ProofOfPossession::No {
        add("dpop_signing_alg_values_supported", json!(["ES256"]));
    }
    if setup.discovery != Discovery::OAuth {
        add("subject_types_supported", json!(["public"]));
        add("id_token_signing_alg_values_supported", json!(["ES256"]));
    }
    json_response(&document)
}

pub(super) fn key_set(state: &AuthorizationState) -> Response {
    let mut key = state.identity.jwk();
    key["kid"] = "1".into();
    key["alg"] = "ES256".into();
    json_response(&json!({ "keys": [key] }))
}
