//! Who asks at the token endpoint.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::form_urlencoded;

use super::client::{Client, Proof};
use super::fault::Endpoint;
use super::jwt::Jwt;
use super::refusal::Refusal;
use super::state::State;
use crate::http::HttpRequest;

const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// How a client showed who it is.
enum Shown {
    Nothing,
    Name(String),
    Secret {
        id: String,
        secret: String,
        method: &'static str,
    },
    Assertion(String),
}

/// The client, once it has proved what it says. One that says nothing is unknown.
pub(super) fn authenticate(state: &State, request: &HttpRequest) -> Result<Client, Refusal> {
    let known = |id: &str| state.client(id).ok_or(Refusal::client("no such client"));
    match shown(request)? {
        Shown::Nothing => Ok(Client::unknown()),
        Shown::Name(id) => {
            let client = known(&id)?;
            match client.proof {
                Proof::None => Ok(client),
                _ => Err(Refusal::client("this client has to authenticate")),
            }
        }
        Shown::Secret { id, secret, method } => {
            let client = known(&id)?;
            state.ledger().remember(&secret);
            if client.method.as_deref().is_some_and(|own| own != method) {
                return Err(Refusal::client("not the way this client registered"));
            }
            match &client.proof {
                Proof::Secret(own) if *own == secret => Ok(client),
                _ => Err(Refusal::client("wrong secret")),
            }
        }
        Shown::Assertion(text) => asserted(state, &text),
    }
}

fn shown(request: &HttpRequest) -> Result<Shown, Refusal> {
    let header = request.header("authorization");
    let basic = header.and_then(|header| header.strip_prefix("Basic "));
    let secret = request.parameter("client_secret");
    let assertion = request.parameter("client_assertion");
    let ways = [basic.is_some(), secret.is_some(), assertion.is_some()];
    if ways.into_iter().filter(|way| *way).count() > 1 {
        return Err(Refusal::request("more than one way to authenticate"));
    }
    let name = request.parameter("client_id");
    if let Some(basic) = basic {
        let (id, secret) = credentials(basic).ok_or(Refusal::client("not a Basic header"))?;
        let method = "client_secret_basic";
        return Ok(Shown::Secret { id, secret, method });
    }
    if let Some(assertion) = assertion {
        let kind = request.parameter("client_assertion_type");
        return match kind.as_deref() {
            Some(ASSERTION) => Ok(Shown::Assertion(assertion)),
            _ => Err(Refusal::request("unknown kind of client assertion")),
        };
    }
    Ok(match (name, secret) {
        (Some(id), Some(secret)) => Shown::Secret {
            id,
            secret,
            method: "client_secret_post",
        },
        (Some(id), None) => Shown::Name(id),
        (None, Some(_)) => return Err(Refusal::request("a secret without a client")),
        (None, None) => Shown::Nothing,
    })
}

/// Name and secret, which are encoded like a form each.
fn credentials(basic: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    let decode = |text: &str| {
        let (decoded, _) = form_urlencoded::parse(text.as_bytes()).next()?;
        Some(decoded.into_owned())
    };
    Some((decode(id)?, decode(secret)?))
}

fn asserted(state: &State, text: &str) -> Result<Client, Refusal> {
    let refused = |what: &str| Refusal::client(format!("client assertion: {what}"));
    let jwt = Jwt::parse(text).ok_or_else(|| refused("not a JWT"))?;
    let id = jwt.text("iss");
    let client = state
        .client(id)
        .ok_or_else(|| refused("of no known client"))?;
    let Proof::Key(key) = &client.proof else {
        return Err(refused("this client has no key"));
    };
    let now = state.now();
    if !jwt.is_signed_by(key) {
        return Err(refused("wrong signature"));
    }
    if jwt.text("sub") != id {
        return Err(refused("`sub` is not the client"));
    }
    if !jwt.is_for(&[state.issuer(), state.url(Endpoint::Token)]) {
        return Err(refused("meant for another server"));
    }
    if !jwt.is_current(now) {
        return Err(refused("not current"));
    }
    let mut ledger = state.ledger();
    ledger.remember(text);
    if !ledger.is_first_use(jwt.text("jti")) {
        return Err(refused("used before"));
    }
    drop(ledger);
    Ok(client)
}
