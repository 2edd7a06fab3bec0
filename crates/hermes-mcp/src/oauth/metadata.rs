//! What an authorization server says of itself.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::OAuthError;

/// Authorization server metadata, as far as it matters here. The rest is kept and written back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerMetadata {
    /// Who it is.
    pub issuer: String,
    /// Where people go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_endpoint: Option<String>,
    /// Where tokens come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
    /// Where clients register.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_endpoint: Option<String>,
    /// Where a device asks for a code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_authorization_endpoint: Option<String>,
    /// Where tokens are given back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes_supported: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_types_supported: Option<Vec<String>>,
    /// How clients may prove who they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Methods of PKCE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// Whether answers name who gives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_response_iss_parameter_supported: Option<bool>,
    /// Whether a client may be the address of its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id_metadata_document_supported: Option<bool>,
    /// Algorithms for proofs of possession.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl ServerMetadata {
    /// Whether a grant is on offer. Without a list it is the two of the standard.
    pub(super) fn supports_grant(&self, grant: &str) -> bool {
        match &self.grant_types_supported {
            Some(grants) => grants.iter().any(|known| known == grant),
            None => grant == "authorization_code" || grant == "refresh_token",
        }
    }

    /// Whether a client may prove who it is in this way. Without a list only `client_secret_basic` is sure.
    pub(super) fn supports_auth_method(&self, method: &str) -> bool {
        match &self.token_endpoint_auth_methods_supported {
            Some(methods) => methods.iter().any(|known| known == method),
            None => method == "client_secret_basic",
        }
    }

    pub(super) fn supports_scope(&self, scope: &str) -> bool {
        let known = self.scopes_supported.iter().flatten();
        known.into_iter().any(|known| known == scope)
    }

    pub(super) fn supports_es256_proofs(&self) -> bool {
        let known = self.dpop_signing_alg_values_supported.iter().flatten();
        known.into_iter().any(|algorithm| algorithm == "ES256")
    }

    pub(super) fn token_url(&self) -> Result<Url, OAuthError> {
        self.endpoint_url("token_endpoint", self.token_endpoint.as_deref())
    }

    pub(super) fn authorization_url(&self) -> Result<Url, OAuthError> {
        self.endpoint_url(
            "authorization_endpoint",
            self.authorization_endpoint.as_deref(),
        )
    }

    /// An endpoint's address, or why there is none.
    pub(super) fn endpoint_url(&self, key: &str, value: Option<&str>) -> Result<Url, OAuthError> {
        let bad = |reason: String| OAuthError::Metadata {
            url: self.issuer.clone(),
            reason,
        };
        let value = value.ok_or_else(|| bad(format!("`{key}` is missing")))?;
        Url::parse(value).map_err(|error| bad(format!("`{key}`: {error}")))
    }
}

/// Whether two texts name one issuer. Some write the root of a host with a slash and some without; the metadata lies at
/// the same place for both.
pub(super) fn is_same_issuer(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}
