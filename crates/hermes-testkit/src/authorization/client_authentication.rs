//! Who asks at the token endpoint.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use url::form_urlencoded;

use super::{
    client::{ClientProof, RegisteredClient},
    jwt::Jwt,
    refusal::OAuthRefusal,
    setup::Endpoint,
    state::AuthorizationState,
};
use crate::http::HttpRequest;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// How a client showed who it is.
enum PresentedCredentials {
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
pub(super) fn authenticate(
    state: &AuthorizationState,
    request: &HttpRequest,
) -> Result<RegisteredClient, OAuthRefusal> {
    let known = |id: &str| {
        state
            .client(id)
            .ok_or(OAuthRefusal::client("no such client"))
    };
    match read_credentials(request)? {
        PresentedCredentials::Nothing => Ok(RegisteredClient::unknown()),
        PresentedCredentials::Name(id) => {
            let client = known(&id)?;
            match client.proof {
                ClientProof::None => Ok(client),
                _ => Err(OAuthRefusal::client("this client has to authenticate")),
            }
        }
        PresentedCredentials::Secret { id, secret, method } => {
            let client = known(&id)?;
            state.ledger().remember(&secret);
            if client.method.as_deref().is_some_and(|own| own != method) {
                return Err(OAuthRefusal::client("not the way this client registered"));
            }
            match &client.proof {
                ClientProof::Secret(own) if *own == secret => Ok(client),
                _ => Err(OAuthRefusal::client("wrong secret")),
            }
        }
        PresentedCredentials::Assertion(text) => verify_assertion(state, &text),
    }
}

fn read_credentials(request: &HttpRequest) -> Result<PresentedCredentials, OAuthRefusal> {
    let header = request.header("authorization");
    let basic = header.and_then(|header| header.strip_prefix("Basic "));
    let secret = request.parameter("client_secret");
    let assertion = request.parameter("client_assertion");
    let ways = [basic.is_some(), secret.is_some(), assertion.is_some()];
    if ways.into_iter().filter(|way| *way).count() > 1 {
        return Err(OAuthRefusal::request("more than one way to authenticate"));
    }
    let name = request.parameter("client_id");
    if let Some(basic) = basic {
        let (id, secret) = decode_basic(basic).ok_or(OAuthRefusal::client("not a Basic header"))?;
        let method = "client_secret_basic";
        return Ok(PresentedCredentials::Secret { id, secret, method });
    }
    if let Some(assertion) = assertion {
        let kind = request.parameter("client_assertion_type");
        return match kind.as_deref() {
            Some(ASSERTION_TYPE) => Ok(PresentedCredentials::Assertion(assertion)),
            _ => Err(OAuthRefusal::request("unknown kind of client assertion")),
        };
    }
    Ok(match (name, secret) {
        (Some(id), Some(secret)) => PresentedCredentials::Secret {
            id,
            secret,
            method: "client_secret_post",
        },
        (Some(id), None) => PresentedCredentials::Name(id),
        (None, Some(_)) => return Err(OAuthRefusal::request("a secret without a client")),
        (None, None) => PresentedCredentials::Nothing,
    })
}

/// Name and secret, which are encoded like a form each.
fn decode_basic(basic: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    let decode = |text: &str| {
        let (decoded, _) = form_urlencoded::parse(text.as_bytes()).next()?;
        Some(decoded.into_owned())
    };
    Some((decode(id)?, decode(secret)?))
}

fn verify_assertion(
    state: &AuthorizationState,
    text: &str,
) -> Result<RegisteredClient, OAuthRefusal> {
    let refused = |what: &str| OAuthRefusal::client(format!("client assertion: {what}"));
    let jwt = Jwt::parse(text).ok_or_else(|| refused("not a JWT"))?;
    let id = jwt.text("iss");
    let client = state
        .client(id)
        .ok_or_else(|| refused("of no known client"))?;
    let ClientProof::Key(key) = &client.proof else {
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
