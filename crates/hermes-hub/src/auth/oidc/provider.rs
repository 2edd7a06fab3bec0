//! What an identity provider says over HTTP: where its endpoints are, its keys, and tokens for a code.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use http::header;
use jsonwebtoken::jwk::JwkSet;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::OidcError;
use crate::settings::OidcSettings;

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REPLY: usize = 1 << 20;
/// What the provider says of itself is read again after so long.
const METADATA_TTL: Duration = Duration::from_hours(1);

/// What a provider says of itself.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ProviderMetadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    jwks_uri: String,
    pub(super) userinfo_endpoint: Option<String>,
    pub(super) end_session_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// The provider, as it was found.
pub(super) struct FoundProvider {
    pub(super) metadata: ProviderMetadata,
    pub(super) keys: JwkSet,
    read_at: Instant,
}

/// The tokens that a code is traded for: secrets, which are never shown.
#[derive(Deserialize)]
pub(super) struct CodeReply {
    pub(super) id_token: Option<String>,
    pub(super) access_token: Option<String>,
}

/// A client of one provider.
#[derive(Default)]
pub(super) struct ProviderClient {
    http: tokio::sync::OnceCell<reqwest::Client>,
    found: ArcSwapOption<FoundProvider>,
}

impl ProviderClient {
    /// The provider, as it was found within the last hour.
    pub(super) async fn find(&self, issuer: &str) -> Result<Arc<FoundProvider>, OidcError> {
        if let Some(found) = self.found.load_full()
            && found.metadata.issuer == issuer
            && found.read_at.elapsed() < METADATA_TTL
        {
            return Ok(found);
        }
        self.find_again(issuer).await
    }

    /// The same, asked for now: its keys may have changed.
    pub(super) async fn find_again(&self, issuer: &str) -> Result<Arc<FoundProvider>, OidcError> {
        let place = issuer.trim_end_matches('/');
        let address = format!("{place}/.well-known/openid-configuration");
        let metadata: ProviderMetadata = self.get(&address, None).await?;
        if metadata.issuer != issuer {
            return Err(OidcError::Provider(format!(
                "it says that it is `{}`, and `oidc.issuer` is `{issuer}`",
                metadata.issuer
            )));
        }
        let addresses = [
            Some(&metadata.authorization_endpoint),
            Some(&metadata.token_endpoint),
            Some(&metadata.jwks_uri),
            metadata.userinfo_endpoint.as_ref(),
            metadata.end_session_endpoint.as_ref(),
        ];
        if let Some(open) = addresses
            .into_iter()
            .flatten()
            .find(|address| !crate::settings::is_protected_address(address))
        {
            return Err(OidcError::Provider(format!("`{open}` is not https")));
        }
        let keys = self.get(&metadata.jwks_uri, None).await?;
        let found = Arc::new(FoundProvider {
            metadata,
            keys,
            read_at: Instant::now(),
        });
        self.found.store(Some(Arc::clone(&found)));
        Ok(found)
    }

    /// Trades a code for tokens.
    pub(super) async fn trade_code(
        &self,
        metadata: &ProviderMetadata,
        settings: &OidcSettings,
        code: &str,
        verifier: &str,
        redirect_uri: &str,
    ) -> Result<CodeReply, OidcError> {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("code_verifier", verifier),
            ("redirect_uri", redirect_uri),
        ];
        let methods = &metadata.token_endpoint_auth_methods_supported;
        let takes_basic = methods.is_empty() || methods.iter().any(|m| m == "client_secret_basic");
        let mut headers = None;
        match &settings.client_secret {
            Some(secret) if takes_basic => {
                headers = Some((encode(&settings.client_id), encode(secret.expose())));
            }
            Some(secret) => {
                form.push(("client_id", &settings.client_id));
                form.push(("client_secret", secret.expose()));
            }
            None => form.push(("client_id", &settings.client_id)),
        }
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        let client = self.http().await?;
        let mut request = client
            .post(&metadata.token_endpoint)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(body);
        if let Some((id, secret)) = headers {
            request = request.basic_auth(id, Some(secret));
        }
        read_reply(request).await
    }

    /// What the provider says about a person besides the ID token.
    pub(super) async fn user_info(
        &self,
        address: &str,
        access_token: &str,
    ) -> Result<Map<String, Value>, OidcError> {
        self.get(address, Some(access_token)).await
    }

    async fn get<T: DeserializeOwned>(
        &self,
        address: &str,
        token: Option<&str>,
    ) -> Result<T, OidcError> {
        let client = self.http().await?;
        let mut request = client
            .get(address)
            .header(header::ACCEPT, "application/json");
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        read_reply(request).await
    }

    async fn http(&self) -> Result<&reqwest::Client, OidcError> {
        let made = self.http.get_or_try_init(|| async {
            reqwest::Client::builder()
                .user_agent(concat!("hermes-hub/", env!("CARGO_PKG_VERSION")))
                .timeout(TIMEOUT)
                .redirect(reqwest::redirect::Policy::none())
                .build()
        });
        made.await
            .map_err(|error| OidcError::Unreachable(error.to_string()))
    }
}

/// As RFC 6749 has it for names and secrets in `Authorization`.
fn encode(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

async fn read_reply<T: DeserializeOwned>(request: reqwest::RequestBuilder) -> Result<T, OidcError> {
    let failed = |error: reqwest::Error| OidcError::Unreachable(error.without_url().to_string());
    let mut reply = request.send().await.map_err(failed)?;
    let status = reply.status();
    let mut body = Vec::new();
    while let Some(piece) = reply.chunk().await.map_err(failed)? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_REPLY {
            return Err(OidcError::Provider("its reply is too long".into()));
        }
    }
    if !status.is_success() {
        let reply: Value = serde_json::from_slice(&body).unwrap_or_default();
        let reason = reply["error"].as_str().unwrap_or_default();
        let reason: String = reason.chars().take(100).collect();
        return Err(OidcError::Provider(format!(
            "it answers {} {reason}",
            status.as_u16()
        )));
    }
    serde_json::from_slice(&body)
        .map_err(|error| OidcError::Provider(format!("its reply cannot be read: {error}")))
}
