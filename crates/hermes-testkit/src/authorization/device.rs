//! Codes for devices without a browser (RFC 8628). Whoever visits the page consents.

use std::time::{Duration, Instant};

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    client::{ClientOrigin, RegisteredClient},
    client_authentication::authenticate,
    grant::Grant,
    jwt::random_token,
    refusal::{OAuthRefusal, html_page, json_response},
    setup::{CallbackFault, Endpoint},
    state::AuthorizationState,
};
use crate::http::HttpRequest;

/// Poll interval of a client, in seconds.
const POLL_INTERVAL_SECONDS: u64 = 1;

/// A device that waits for a person.
#[derive(Debug)]
pub(super) struct DeviceGrant {
    grant: Grant,
    user_code: String,
    decision: DeviceDecision,
    asked: Option<Instant>,
    ends: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeviceDecision {
    Pending,
    Granted,
    Denied,
}

pub(super) fn handle_device_code(state: &AuthorizationState, request: &HttpRequest) -> Response {
    match start_device_grant(state, request) {
        Ok(reply) => json_response(&reply),
        Err(refusal) => refusal.into_response(),
    }
}

fn start_device_grant(
    state: &AuthorizationState,
    request: &HttpRequest,
) -> Result<Value, OAuthRefusal> {
    if !state.setup.device_codes {
        return Err(OAuthRefusal::new("unauthorized_client", "not offered here"));
    }
    let client = authenticate(state, request)?;
    if client.origin == ClientOrigin::Unknown {
        return Err(OAuthRefusal::client("who are you?"));
    }
    let resource = state.check_resource(request.parameter("resource"))?;
    let scopes = state.check_scopes(request.parameter("scope").as_deref())?;
    let page = state.url(Endpoint::Activation);
    let mut ledger = state.ledger();
    let device_code = ledger.new_secret("device");
    let letters = random_token().to_ascii_uppercase();
    let letters = letters.chars().filter(char::is_ascii_alphanumeric);
    let user_code: String = "USER-".chars().chain(letters.take(6)).collect();
    let device = DeviceGrant {
        grant: Grant {
            client: client.id,
            subject: "somebody".to_owned(),
            scopes,
            resource,
            key: None,
            family: ledger.new_family(),
        },
        user_code: user_code.clone(),
        decision: DeviceDecision::Pending,
        asked: None,
        ends: Instant::now() + Duration::from_mins(10),
    };
    ledger.devices.insert(device_code.clone(), device);
    Ok(json!({
        "device_code": device_code,
        "user_code": user_code,
        "verification_uri": page,
        "verification_uri_complete": format!("{page}?user_code={user_code}"),
        "expires_in": 600,
        "interval": POLL_INTERVAL_SECONDS,
    }))
}

/// A person has come with a code.
pub(super) fn handle_activation(state: &AuthorizationState, request: &HttpRequest) -> Response {
    let code = request.parameter("user_code").unwrap_or_default();
    let mut ledger = state.ledger();
    let decision = match ledger.callback_fault {
        Some(CallbackFault::Refused(_)) => DeviceDecision::Denied,
        _ => DeviceDecision::Granted,
    };
    let mut devices = ledger.devices.values_mut();
    let Some(device) = devices.find(|device| device.user_code == code) else {
        return html_page(StatusCode::NOT_FOUND, "No device waits for this code.");
    };
    device.decision = decision;
    html_page(StatusCode::OK, "The device may go on.")
}

/// What the device gets at the token endpoint.
pub(super) fn redeem_device_code(
    state: &AuthorizationState,
    request: &HttpRequest,
    client: &RegisteredClient,
) -> Result<Grant, OAuthRefusal> {
    let code = request.parameter("device_code").unwrap_or_default();
    let mut ledger = state.ledger();
    let device = ledger
        .devices
        .get_mut(&code)
        .filter(|device| device.grant.client == client.id)
        .ok_or_else(|| OAuthRefusal::grant("no such device code"))?;
    if device.ends <= Instant::now() {
        return Err(OAuthRefusal::new("expired_token", "too late"));
    }
    let asked = device.asked.replace(Instant::now());
    // Half of the interval is let pass, for clocks and networks.
    let soon = Duration::from_millis(POLL_INTERVAL_SECONDS * 500);
    match device.decision {
        DeviceDecision::Denied => Err(OAuthRefusal::new("access_denied", "the person said no")),
        DeviceDecision::Granted => {
            let granted = device.grant.clone();
            ledger.devices.remove(&code);
            Ok(granted)
        }
        DeviceDecision::Pending if asked.is_some_and(|asked| asked.elapsed() < soon) => {
            Err(OAuthRefusal::new("slow_down", "not so fast"))
        }
        DeviceDecision::Pending => Err(OAuthRefusal::new("authorization_pending", "not yet")),
    }
}
