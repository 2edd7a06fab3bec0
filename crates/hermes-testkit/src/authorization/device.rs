//! Codes for devices without a browser (RFC 8628). Whoever visits the page consents.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::client::{Client, Origin};
use super::client_authentication::authenticate;
use super::fault::{CallbackFault, Endpoint};
use super::grant::Grant;
use super::jwt::random;
use super::refusal::{Refusal, json_response, page};
use super::state::State;
use crate::http::HttpRequest;

/// Poll interval of a client, in seconds.
const INTERVAL: u64 = 1;

/// A device that waits for a person.
#[derive(Debug)]
pub(super) struct Device {
    grant: Grant,
    user_code: String,
    decision: Decision,
    asked: Option<Instant>,
    ends: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Pending,
    Granted,
    Denied,
}

pub(super) fn answer(state: &State, request: &HttpRequest) -> Response {
    match begin(state, request) {
        Ok(reply) => json_response(&reply),
        Err(refusal) => refusal.into_response(),
    }
}

fn begin(state: &State, request: &HttpRequest) -> Result<Value, Refusal> {
    if !state.setup.device_codes {
        return Err(Refusal::new("unauthorized_client", "not offered here"));
    }
    let client = authenticate(state, request)?;
    if client.origin == Origin::Unknown {
        return Err(Refusal::client("who are you?"));
    }
    let resource = state.known_resource(request.parameter("resource"))?;
    let scopes = state.known_scopes(request.parameter("scope").as_deref())?;
    let page = state.url(Endpoint::Activation);
    let mut ledger = state.ledger();
    let device_code = ledger.new_secret("device");
    let letters = random().to_ascii_uppercase();
    let letters = letters.chars().filter(char::is_ascii_alphanumeric);
    let user_code: String = "USER-".chars().chain(letters.take(6)).collect();
    let device = Device {
        grant: Grant {
            client: client.id,
            subject: "somebody".to_owned(),
            scopes,
            resource,
            key: None,
            family: ledger.new_family(),
        },
        user_code: user_code.clone(),
        decision: Decision::Pending,
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
        "interval": INTERVAL,
    }))
}

/// A person has come with a code.
pub(super) fn activate(state: &State, request: &HttpRequest) -> Response {
    let code = request.parameter("user_code").unwrap_or_default();
    let mut ledger = state.ledger();
    let decision = match ledger.callback_fault {
        Some(CallbackFault::Refused(_)) => Decision::Denied,
        _ => Decision::Granted,
    };
    let mut devices = ledger.devices.values_mut();
    let Some(device) = devices.find(|device| device.user_code == code) else {
        return page(StatusCode::NOT_FOUND, "No device waits for this code.");
    };
    device.decision = decision;
    page(StatusCode::OK, "The device may go on.")
}

/// What the device gets at the token endpoint.
pub(super) fn grant(
    state: &State,
    request: &HttpRequest,
    client: &Client,
) -> Result<Grant, Refusal> {
    let code = request.parameter("device_code").unwrap_or_default();
    let mut ledger = state.ledger();
    let device = ledger
        .devices
        .get_mut(&code)
        .filter(|device| device.grant.client == client.id)
        .ok_or_else(|| Refusal::grant("no such device code"))?;
    if device.ends <= Instant::now() {
        return Err(Refusal::new("expired_token", "too late"));
    }
    let asked = device.asked.replace(Instant::now());
    // Half of the interval is let pass, for clocks and networks.
    let soon = Duration::from_millis(INTERVAL * 500);
    match device.decision {
        Decision::Denied => Err(Refusal::new("access_denied", "the person said no")),
        Decision::Granted => {
            let granted = device.grant.clone();
            ledger.devices.remove(&code);
            Ok(granted)
        }
        Decision::Pending if asked.is_some_and(|asked| asked.elapsed() < soon) => {
            Err(Refusal::new("slow_down", "not so fast"))
        }
        Decision::Pending => Err(Refusal::new("authorization_pending", "not yet")),
    }
}
