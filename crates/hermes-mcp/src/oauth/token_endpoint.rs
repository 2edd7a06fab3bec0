//! The token endpoint: asks for tokens in whatever way, proves who we are, and reads what comes back.

use std::time::SystemTime;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hermes_config::{Redactor, Secret, server::OAuthSettings};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::{
    OAuthError, ServerMetadata, Tokens,
    address::display_url,
    client::{ClientAuthMethod, OAuthClient},
    dpop::{DpopKey, Nonces},
    jwt::SigningKey,
    pkce,
    requests::{OAuthHttpClient, OAuthResponse},
};

/// Where a proof of possession goes.
pub(super) const DPOP_HEADER: HeaderName = HeaderName::from_static("dpop");
/// Where a server puts a nonce for the next one.
pub(super) const DPOP_NONCE_HEADER: &str = "dpop-nonce";

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// How long a signed assertion holds.
const ASSERTION_LIFETIME_SECONDS: u64 = 120;

/// Fields of a form that nobody else may see, should the other side repeat them.
const SECRET_FIELDS: [&str; 9] = [
    "actor_token",
    "assertion",
    "client_secret",
    "code",
    "code_verifier",
    "device_code",
    "refresh_token",
    "subject_token",
    "token",
];

pub(super) type FormFields = Vec<(&'static str, String)>;

/// One authorization server's token endpoint, asked by one client.
pub(super) struct TokenEndpoint<'a> {
    pub(super) requests: &'a OAuthHttpClient,
    pub(super) settings: &'a OAuthSettings,
    pub(super) metadata: &'a ServerMetadata,
    pub(super) client: &'a OAuthClient,
    /// Tokens are to be bound to this key.
    pub(super) key: Option<&'a DpopKey>,
    pub(super) nonces: &'a Nonces,
}

#[derive(Deserialize)]
struct TokenReply {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Option<Value>,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    scope: Option<String>,
}

impl TokenEndpoint<'_> {
    pub(super) async fn request_tokens(&self, form: FormFields) -> Result<Tokens, OAuthError> {
        let url = self.metadata.token_url()?;
        let reply = self.post(&url, form).await?;
        let bad = |reason: &str| OAuthError::BadReply {
            what: display_url(&url),
            reason: reason.to_owned(),
        };
        let body = reply.json().ok_or_else(|| bad("it is not JSON"))?;
        let reply: TokenReply =
            serde_json::from_value(body).map_err(|_| bad("it has no access token"))?;
        let token_type = reply.token_type.unwrap_or_else(|| "Bearer".into());
        let (token_type, dpop_key) = match (token_type.to_ascii_lowercase().as_str(), self.key) {
            ("bearer", _) => ("Bearer", None),
            ("dpop", Some(key)) => ("DPoP", Some(key.to_pkcs8().to_owned())),
            _ => return Err(bad("the kind of its token is unknown")),
        };
        let life = reply.expires_in.as_ref().and_then(parse_seconds);
        Ok(Tokens {
            access_token: reply.access_token,
            token_type: token_type.to_owned(),
            expires_in: life,
            scope: reply.scope.filter(|scope| !scope.is_empty()),
            refresh_token: reply.refresh_token.filter(|token| !token.is_empty()),
            expires_at: Tokens::expiry(life, SystemTime::now()),
            issuer: Some(self.metadata.issuer.clone()),
            resource: None,
            client_id: Some(self.client.id.clone()).filter(|id| !id.is_empty()),
            requested_scope: None,
            dpop_key,
            others: serde_json::Map::new(),
        })
    }

    /// Posts a form with everything that proves who we are; an error unless it succeeds.
    pub(super) async fn post(
        &self,
        url: &Url,
        form: FormFields,
    ) -> Result<OAuthResponse, OAuthError> {
        let mut has_retried = false;
        loop {
            let (mut form, mut headers) = (form.clone(), HeaderMap::new());
            self.authenticate_client(&mut form, &mut headers)?;
            if let Some(key) = self.key {
                let proof = key.proof("POST", url, None, self.nonces.get(url).as_deref())?;
                headers.insert(DPOP_HEADER, secret_header(&proof)?);
            }
            let sent = form_redactor(&form);
            let reply = self.requests.post_form(url, &form, headers).await?;
            let is_new_nonce = reply
                .header(DPOP_NONCE_HEADER)
                .is_some_and(|nonce| self.nonces.store(url, &nonce));
            // Some say no with status 200.
            let refusal = reply.oauth_error();
            if reply.status.is_success() && refusal.is_none() {
                return Ok(reply);
            }
            if let Some(OAuthError::Refused { error, .. }) = &refusal
                && error == "use_dpop_nonce"
                && is_new_nonce
                && !has_retried
            {
                has_retried = true;
                continue;
            }
            return Err(match refusal {
                Some(refusal) if !reply.status.is_server_error() => redact_error(&sent, refusal),
                _ => OAuthError::Unavailable {
                    what: display_url(url),
                    reason: format!("HTTP {}", reply.status),
                },
            });
        }
    }

    fn authenticate_client(
        &self,
        form: &mut FormFields,
        headers: &mut HeaderMap,
    ) -> Result<(), OAuthError> {
        let OAuthClient {
            id,
            secret,
            auth_method: proof,
            ..
        } = self.client;
        let secret = secret.clone().unwrap_or_default();
        match proof {
            ClientAuthMethod::None if id.is_empty() => {}
            ClientAuthMethod::None => form.push(("client_id", id.clone())),
            ClientAuthMethod::SecretInForm => {
                form.push(("client_id", id.clone()));
                form.push(("client_secret", secret));
            }
            ClientAuthMethod::SecretInHeader => {
                let encode = |text: &str| {
                    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>()
                };
                let pair = format!("{}:{}", encode(id), encode(&secret));
                let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
                headers.insert(header::AUTHORIZATION, secret_header(&value)?);
            }
            ClientAuthMethod::SignedAssertion => {
                form.push(("client_id", id.clone()));
                form.push(("client_assertion_type", ASSERTION_TYPE.into()));
                form.push(("client_assertion", self.sign_assertion()?));
            }
        }
        Ok(())
    }

    fn sign_assertion(&self) -> Result<String, OAuthError> {
        let pem = self.settings.private_key.as_deref().unwrap_or_default();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs());
        let claims = json!({
            "iss": self.client.id,
            "sub": self.client.id,
            "aud": self.metadata.issuer,
            "jti": pkce::random_token()?,
            "iat": now,
            "exp": now + ASSERTION_LIFETIME_SECONDS,
        });
        SigningKey::from_pem(pem)?.sign(json!({"typ": "JWT"}), &claims)
    }
}

/// Knows what a form holds that must not be shown. Signed assertions are known by their looks.
fn form_redactor(form: &FormFields) -> Redactor {
    let secret = form.iter().filter(|(name, _)| SECRET_FIELDS.contains(name));
    Redactor::new(secret.map(|(_, value)| Secret::new(value.clone())))
}

/// A refusal that does not repeat what was sent.
fn redact_error(sent: &Redactor, refusal: OAuthError) -> OAuthError {
    match refusal {
        OAuthError::Refused { error, description } => OAuthError::Refused {
            error: sent.redact(&error).into_owned(),
            description: description.map(|text| sent.redact(&text).into_owned()),
        },
        other => other,
    }
}

/// A header that is not shown.
pub(super) fn secret_header(value: &str) -> Result<HeaderValue, OAuthError> {
    let mut header = HeaderValue::try_from(value).map_err(|_| OAuthError::LoginExpired {
        reason: "the token has characters that cannot be sent".into(),
    })?;
    header.set_sensitive(true);
    Ok(header)
}

/// Some authorization servers send numbers as text.
fn parse_seconds(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        /// Whatever is sent, in whichever field, and however it is spelt when it comes back.
        #[test]
        fn no_generated_secret_comes_back_with_a_refusal(secret in "[!-~äöü€]{8,40}") {
            for field in SECRET_FIELDS {
                let form = vec![("grant_type", "refresh_token".to_owned()), (field, secret.clone())];
                let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
                let in_json = Value::from(secret.as_str()).to_string();
                let refusal = OAuthError::Refused {
                    error: format!("invalid {secret}"),
                    description: Some(format!("refresh_token: {secret} or {field}={encoded} or {in_json}")),
                };
                let message = redact_error(&form_redactor(&form), refusal).to_string();
                let spellings = [secret.as_str(), &encoded, &in_json[1..in_json.len() - 1]];
                for spelling in spellings {
                    assert!(!message.contains(spelling), "{field}: `{spelling}` in {message}");
                }
                assert!(message.contains("refresh_token"), "{message}");
            }
        }
    }
}
