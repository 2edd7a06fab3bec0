//! Tokens for what others have signed: enterprise-managed authorization and workload identity.

use serde_json::{Value, json};

use super::{
    client::{ClientOrigin, RegisteredClient},
    grant::Grant,
    jwt::Jwt,
    refusal::OAuthRefusal,
    state::AuthorizationState,
};
use crate::http::HttpRequest;

const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ID_JAG_HEADER: &str = "oauth-id-jag+jwt";

/// RFC 8693, at the identity provider: an ID token of its own for an assertion that another server takes.
pub(super) fn exchange_token(
    state: &AuthorizationState,
    request: &HttpRequest,
    client: &RegisteredClient,
) -> Result<Value, OAuthRefusal> {
    let is = |name: &str, wanted: &str| match request.parameter(name) {
        Some(given) if given == wanted => Ok(()),
        given => Err(OAuthRefusal::request(format!("`{name}` is {given:?}"))),
    };
    is("subject_token_type", ID_TOKEN)?;
    is("requested_token_type", ID_JAG)?;
    let needed = |name: &str| {
        let value = request.parameter(name);
        value.ok_or_else(|| OAuthRefusal::request(format!("`{name}` is missing")))
    };
    let (audience, resource) = (needed("audience")?, needed("resource")?);
    let now = state.now();
    let token = needed("subject_token").map(|text| Jwt::parse(&text))?;
    let is_good = |token: &Jwt| {
        token.is_signed_by(&state.identity.public_key())
            && token.text("iss") == state.issuer()
            && token.is_for(std::slice::from_ref(&client.id))
            && token.is_current(now)
    };
    let Some(token) = token.filter(is_good) else {
        return Err(OAuthRefusal::grant("not an ID token for this client"));
    };
    let mut ledger = state.ledger();
    let known_as = ledger.aliases.get(&client.id).unwrap_or(&client.id);
    let mut claims = json!({ "typ": ID_JAG_HEADER, "client_id": known_as, "resource": resource });
    if let Some(scope) = request.parameter("scope") {
        claims["scope"] = scope.into();
    }
    let assertion = state
        .identity
        .sign_claims(token.text("sub"), &audience, claims, now);
    ledger.remember(&assertion);
    Ok(json!({
        "access_token": assertion, "issued_token_type": ID_JAG, "token_type": "N_A", "expires_in": 300,
    }))
}

/// RFC 7523: an assertion of an issuer that is trusted here.
pub(super) fn redeem_assertion(
    state: &AuthorizationState,
    request: &HttpRequest,
    client: &RegisteredClient,
) -> Result<Grant, OAuthRefusal> {
    let text = request
        .parameter("assertion")
        .ok_or_else(|| OAuthRefusal::request("`assertion` is missing"))?;
    let refused = |what: &str| OAuthRefusal::grant(format!("assertion: {what}"));
    let jwt = Jwt::parse(&text).ok_or_else(|| refused("not a JWT"))?;
    let key = state.ledger().issuers.get(jwt.text("iss")).cloned();
    let key = key.ok_or_else(|| refused("of an issuer nobody trusts"))?;
    if !jwt.is_signed_by(&key) {
        return Err(refused("wrong signature"));
    }
    if !jwt.is_for(&[state.issuer()]) {
        return Err(refused("meant for another server"));
    }
    if !jwt.is_current(state.now()) {
        return Err(refused("not current"));
    }
    let resource = if jwt.header["typ"] == ID_JAG_HEADER {
        if client.origin == ClientOrigin::Unknown || jwt.text("client_id") != client.id {
            return Err(refused("issued to another client"));
        }
        jwt.text("resource").to_owned()
    } else {
        request.parameter("resource").unwrap_or_default()
    };
    let wanted = request.parameter("scope");
    let scope = wanted.as_deref().or(jwt.claims["scope"].as_str());
    let grant = Grant {
        client: client.id.clone(),
        subject: jwt.text("sub").to_owned(),
        scopes: state.check_scopes(scope)?,
        resource: state.check_resource(Some(resource))?,
        key: None,
        family: state.ledger().new_family(),
    };
    let mut ledger = state.ledger();
    ledger.remember(&text);
    if !ledger.is_first_use(jwt.text("jti")) {
        return Err(refused("used before"));
    }
    drop(ledger);
    Ok(grant)
}
