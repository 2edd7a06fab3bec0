//! Finds out who gives out tokens for a server: the server's own metadata, then that of its authorization server; and
//! what the latter says of itself.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::{
    Challenge, OAuthError,
    address::display_url,
    requests::{OAuthHttpClient, OAuthResponse},
};

const RESOURCE_METADATA_PATH: &str = "/.well-known/oauth-protected-resource";
const SERVER_METADATA_PATH: &str = "/.well-known/oauth-authorization-server";
const OPENID_METADATA_PATH: &str = "/.well-known/openid-configuration";

/// A server and its authorization server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DiscoveredServer {
    /// The server's name for itself, exactly as published: tokens are asked for in this name.
    pub(super) resource: String,
    /// What the server says it knows.
    pub(super) scopes_supported: Option<Vec<String>>,
    /// Whether the server says that tokens are bound to keys.
    pub(super) wants_dpop: bool,
    pub(super) metadata: ServerMetadata,
}

/// Protected resource metadata.
#[derive(Debug, Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
    dpop_bound_access_tokens_required: Option<bool>,
}

/// Looks for both. The challenge says where to begin, if there is one.
pub(super) async fn discover(
    requests: &OAuthHttpClient,
    server: &Url,
    challenge: &Challenge,
) -> Result<DiscoveredServer, OAuthError> {
    if let Some(metadata) = fetch_resource_metadata(requests, server, challenge).await? {
        let Some(issuer) = metadata.authorization_servers.first() else {
            return Err(OAuthError::NoAuthorizationServer {
                server: display_url(server),
                reason: "its metadata names none".into(),
            });
        };
        return Ok(DiscoveredServer {
            metadata: fetch_server_metadata(requests, issuer).await?,
            resource: metadata.resource,
            scopes_supported: metadata.scopes_supported,
            wants_dpop: metadata.dpop_bound_access_tokens_required == Some(true),
        });
    }
    // A server of the revision 2025-03-26 is its own authorization server, at its root.
    let issuer = server.origin().ascii_serialization();
    let metadata = fetch_server_metadata(requests, &issuer).await;
    let metadata = metadata.map_err(|error| match error {
        OAuthError::NoAuthorizationServer { .. } => OAuthError::NoAuthorizationServer {
            server: display_url(server),
            reason: format!(
                "there is no metadata at {RESOURCE_METADATA_PATH} nor at {SERVER_METADATA_PATH}; does it support OAuth?"
            ),
        },
        other => other,
    })?;
    let mut resource = server.clone();
    resource.set_fragment(None);
    Ok(DiscoveredServer {
        resource: resource.into(),
        scopes_supported: None,
        wants_dpop: false,
        metadata,
    })
}

/// The server's own metadata: where it says, then below its path, then at its root.
async fn fetch_resource_metadata(
    requests: &OAuthHttpClient,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<ResourceMetadata>, OAuthError> {
    let mut urls = Vec::new();
    if let Some(url) = &challenge.resource_metadata {
        let url = server.join(url).map_err(|error| OAuthError::Metadata {
            url: display_url(server),
            reason: format!("`resource_metadata` of its challenge: {error}"),
        })?;
        urls.push(url);
    }
    let path = server.path().trim_end_matches('/');
    urls.push(with_path(
        server,
        &format!("{RESOURCE_METADATA_PATH}{path}"),
    ));
    if !path.is_empty() {
        urls.push(with_path(server, RESOURCE_METADATA_PATH));
    }
    for url in urls {
        let Some(metadata) = document::<ResourceMetadata>(requests, &url).await? else {
            continue;
        };
        if !is_resource_of(&metadata.resource, server) {
            return Err(OAuthError::Metadata {
                url: display_url(&url),
                reason: format!(
                    "it describes the resource `{}`, not {}",
                    super::requests::one_line(&metadata.resource),
                    display_url(server)
                ),
            });
        }
        return Ok(Some(metadata));
    }
    Ok(None)
}

/// An authorization server's metadata, which has to name the issuer it was looked for by.
pub(super) async fn fetch_server_metadata(
    requests: &OAuthHttpClient,
    issuer: &str,
) -> Result<ServerMetadata, OAuthError> {
    let url = Url::parse(issuer).map_err(|error| OAuthError::Metadata {
        url: super::requests::one_line(issuer),
        reason: error.to_string(),
    })?;
    let path = url.path().trim_end_matches('/');
    let mut urls = vec![
        with_path(&url, &format!("{SERVER_METADATA_PATH}{path}")),
        with_path(&url, &format!("{OPENID_METADATA_PATH}{path}")),
    ];
    if !path.is_empty() {
        urls.push(with_path(&url, &format!("{path}{OPENID_METADATA_PATH}")));
    }
    for url in &urls {
        let Some(metadata) = document::<ServerMetadata>(requests, url).await? else {
            continue;
        };
        if !is_same_issuer(&metadata.issuer, issuer) {
            return Err(OAuthError::Metadata {
                url: display_url(url),
                reason: format!(
                    "its issuer is `{}`, not `{issuer}`",
                    super::requests::one_line(&metadata.issuer)
                ),
            });
        }
        return Ok(metadata);
    }
    Err(OAuthError::NoAuthorizationServer {
        server: display_url(&url),
        reason: "it publishes no metadata".into(),
    })
}

/// A document, or `None` if there is none at that place. A server that fails is not taken for one that has none.
async fn document<T: for<'de> Deserialize<'de>>(
    requests: &OAuthHttpClient,
    url: &Url,
) -> Result<Option<T>, OAuthError> {
    let reply: OAuthResponse = requests.get(url).await?;
    if reply.status.is_server_error() {
        return Err(OAuthError::Unavailable {
            what: display_url(url),
            reason: format!("HTTP {}", reply.status),
        });
    }
    if !reply.status.is_success() {
        return Ok(None);
    }
    // Web applications answer any address with their front page.
    let Some(value) = reply.json() else {
        return Ok(None);
    };
    let document = serde_json::from_value(value).map_err(|error| OAuthError::Metadata {
        url: display_url(url),
        reason: error.to_string(),
    })?;
    Ok(Some(document))
}

fn with_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Whether a server may call itself so: its own address, or one above it on the same origin.
pub(super) fn is_resource_of(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else {
        return false;
    };
    let (above, path) = (resource.path().trim_end_matches('/'), server.path());
    resource.origin() == server.origin()
        && path
            .strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_its_address_or_one_above_it() {
        let server = Url::parse("https://h.example/a/mcp").unwrap();
        for good in [
            "https://h.example/a/mcp",
            "https://h.example/a/mcp/",
            "https://h.example/a",
            "https://h.example",
            "https://H.example:443/",
        ] {
            assert!(is_resource_of(good, &server), "{good}");
        }
        for bad in [
            "https://evil.example/a/mcp",
            "http://h.example/a/mcp",
            "https://h.example:444/a/mcp",
            "https://h.example/a/m",
            "https://h.example/a/mcp/more",
            "nonsense",
        ] {
            assert!(!is_resource_of(bad, &server), "{bad}");
        }
    }
}
