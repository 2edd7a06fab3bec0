//! The authorization endpoint. Everybody consents.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use url::Url;

use super::{
    client::RegisteredClient,
    grant::Grant,
    refusal::{OAuthRefusal, html_page},
    setup::CallbackFault,
    state::AuthorizationState,
};
use crate::http::HttpRequest;

pub(super) fn handle_authorize(state: &AuthorizationState, request: &HttpRequest) -> Response {
    // An address nobody vouches for gets no redirect: the person is told instead.
    let client = request.parameter("client_id");
    let Some(client) = client.and_then(|id| state.client(&id)) else {
        return html_page(StatusCode::BAD_REQUEST, "This client is not known here.");
    };
    let redirect = request.parameter("redirect_uri").unwrap_or_default();
    let Some(mut target) = Url::parse(&redirect)
        .ok()
        .filter(|_| client.may_return_to(&redirect))
    else {
        return html_page(StatusCode::BAD_REQUEST, "This is not the client's address.");
    };
    let fault = state.ledger().callback_fault.clone();
    let outcome = match &fault {
        Some(CallbackFault::Refused(why)) => Err(OAuthRefusal::new("access_denied", why.as_str())),
        _ => grant_consent(state, request, &client, redirect),
    };
    let mut answer = target.query_pairs_mut();
    match outcome {
        Ok(code) => answer.append_pair("code", &code),
        Err(refusal) => answer
            .append_pair("error", refusal.error)
            .append_pair("error_description", &refusal.description),
    };
    let echo = match fault {
        Some(CallbackFault::WrongState) => Some("not-the-state-you-sent".to_owned()),
        Some(CallbackFault::MissingState) => None,
        _ => request.parameter("state"),
    };
    if let Some(echo) = echo {
        answer.append_pair("state", &echo);
    }
    let issuer = match fault {
        Some(CallbackFault::WrongIssuer(other)) => Some(other),
        Some(CallbackFault::MissingIssuer) => None,
        _ => state.setup.issuer_parameter.then(|| state.issuer()),
    };
    if let Some(issuer) = issuer {
        answer.append_pair("iss", &issuer);
    }
    drop(answer);
    let location = [(header::LOCATION, String::from(target))];
    (StatusCode::FOUND, location).into_response()
}

fn grant_consent(
    state: &AuthorizationState,
    request: &HttpRequest,
    client: &RegisteredClient,
    redirect: String,
) -> Result<String, OAuthRefusal> {
    if request.parameter("response_type").as_deref() != Some("code") {
        let text = "only codes are issued here";
        return Err(OAuthRefusal::new("unsupported_response_type", text));
    }
    let method = request.parameter("code_challenge_method");
    let challenge = request.parameter("code_challenge");
    let (Some("S256"), Some(challenge)) = (method.as_deref(), challenge) else {
        return Err(OAuthRefusal::request("PKCE with S256 is needed"));
    };
    let resource = state.check_resource(request.parameter("resource"))?;
    let scopes = state.check_scopes(request.parameter("scope").as_deref())?;
    let mut ledger = state.ledger();
    let grant = Grant {
        client: client.id.clone(),
        subject: "somebody".to_owned(),
        scopes,
        resource,
        key: request.parameter("dpop_jkt"),
        family: ledger.new_family(),
    };
    Ok(ledger.add_code(grant, challenge, redirect))
}
