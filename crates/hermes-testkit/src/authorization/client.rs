//! Clients: who they are, what they may do, and how they register themselves (RFC 7591).

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use url::Url;

use super::{
    jwt::{PublicKey, TokenIssuer, random_token},
    refusal::{OAuthRefusal, json_response},
    state::AuthorizationState,
};
use crate::http::HttpRequest;

#[derive(Debug, Clone)]
pub struct RegisteredClient {
    pub(super) id: String,
    pub(super) proof: ClientProof,
    /// The one way to authenticate, if it has chosen one.
    pub(super) method: Option<String>,
    /// Where its users may be sent back to; with none, to any loopback address.
    pub(super) redirects: Vec<String>,
    pub(super) origin: ClientOrigin,
}

/// How it proves that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClientProof {
    /// Not at all.
    None,
    Secret(String),
    /// By signing with its key.
    Key(PublicKey),
}

/// How it became known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientOrigin {
    Entered,
    Registered,
    /// Its name leads to its description.
    Published,
    /// It is not known: only what it shows counts.
    Unknown,
}

impl RegisteredClient {
    /// A client that cannot keep a secret.
    pub fn public(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            proof: ClientProof::None,
            method: None,
            redirects: Vec::new(),
            origin: ClientOrigin::Entered,
        }
    }

    pub fn with_secret(id: &str, secret: &str) -> Self {
        Self {
            proof: ClientProof::Secret(secret.to_owned()),
            ..Self::public(id)
        }
    }

    /// A client that signs with this key.
    pub fn with_key(id: &str, key: &TokenIssuer) -> Self {
        Self {
            proof: ClientProof::Key(key.public_key()),
            ..Self::public(id)
        }
    }

    /// A bearer of an assertion who gives no name.
    pub(super) fn unknown() -> Self {
        Self {
            origin: ClientOrigin::Unknown,
            ..Self::public("")
        }
    }

    /// A client as its own document describes it, if the document is found at the client's name.
    pub(super) fn published(id: &str, document: &Value) -> Option<Self> {
        let redirects = document["redirect_uris"].as_array()?;
        (document["client_id"] == id).then(|| Self {
            redirects: string_values(redirects),
            origin: ClientOrigin::Published,
            ..Self::public(id)
        })
    }

    /// Whether users may be sent back to this address. The port of a loopback address is free (RFC 8252).
    pub(super) fn may_return_to(&self, address: &str) -> bool {
        let Ok(wanted) = Url::parse(address) else {
            return false;
        };
        if self.redirects.is_empty() {
            return is_loopback(&wanted);
        }
        let known = self
            .redirects
            .iter()
            .filter_map(|known| Url::parse(known).ok());
        let mut known = known.map(without_loopback_port);
        let wanted = without_loopback_port(wanted);
        known.any(|known| known == wanted)
    }
}

pub(super) fn string_values(values: &[Value]) -> Vec<String> {
    let texts = values.iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str();
    url.scheme() == "http" && matches!(host, Some("127.0.0.1" | "[::1]" | "localhost"))
}

fn without_loopback_port(mut url: Url) -> Url {
    if is_loopback(&url) {
        // Only addresses without a host have no port to take away.
        let _ = url.set_port(None);
    }
    url
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_port_of_a_loopback_address_is_free() {
        let mut client = RegisteredClient::public("c");
        client.redirects = vec![
            "http://127.0.0.1:1/callback".to_owned(),
            "https://app.test/back".to_owned(),
        ];
        assert!(client.may_return_to("http://127.0.0.1:2/callback"));
        assert!(client.may_return_to("https://app.test/back"));
        assert!(!client.may_return_to("http://127.0.0.1:2/other"));
        assert!(!client.may_return_to("https://app.test:444/back"));
        assert!(!client.may_return_to("http://evil.test:2/callback"));
    }

    #[test]
    fn a_client_without_addresses_comes_back_to_loopback_only() {
        let client = RegisteredClient::public("c");
        assert!(client.may_return_to("http://127.0.0.1:2/callback"));
        assert!(!client.may_return_to("https://app.test/back"));
    }
}
