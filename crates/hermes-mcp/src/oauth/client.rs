//! Who we are to an authorization server: a client of the user's own, the address of a document that describes us, or one
//! that registers itself. A client belongs to the authorization server that knows it and is shown to no other.

use std::{fmt, time::SystemTime};

use hermes_config::server::OAuthSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    OAuthError, ServerMetadata, TokenFiles,
    address::display_url,
    discovery::is_same_issuer,
    requests::{OAuthHttpClient, OAuthResponse, one_line},
};

/// How a client proves who it is at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAuthMethod {
    None,
    SecretInForm,
    SecretInHeader,
    SignedAssertion,
}

impl ClientAuthMethod {
    const ALL: [(Self, &'static str); 4] = [
        (Self::None, "none"),
        (Self::SecretInForm, "client_secret_post"),
        (Self::SecretInHeader, "client_secret_basic"),
        (Self::SignedAssertion, "private_key_jwt"),
    ];

    fn as_str(self) -> &'static str {
        let named = Self::ALL.iter().find(|(proof, _)| *proof == self);
        named.map_or("none", |(_, word)| word)
    }

    fn from_name(word: &str) -> Option<Self> {
        let named = Self::ALL.iter().find(|(_, known)| *known == word);
        named.map(|(proof, _)| *proof)
    }
}

/// Where a client comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientOrigin {
    /// The user registered it.
    Configured,
    /// Its id is the address of a document.
    Document,
    Registered,
}

/// A client, ready for use.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct OAuthClient {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) auth_method: ClientAuthMethod,
    pub(super) origin: ClientOrigin,
}

impl OAuthClient {
    /// For requests that authenticate in another way.
    pub(super) fn anonymous() -> Self {
        Self {
            id: String::new(),
            secret: None,
            auth_method: ClientAuthMethod::None,
            origin: ClientOrigin::Configured,
        }
    }
}

impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id)
            .field("proof", &self.auth_method)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// A client as it is kept, in the shape of a registration's reply.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientFile {
    pub client_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// When the secret ends; 0 is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret_expires_at: Option<u64>,
    /// Where answers to its logins go.
    pub redirect_uris: Vec<String>,
    /// How it proves who it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_method: Option<String>,
    /// The authorization server that knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// How often the authorization server did not know it.
    #[serde(skip_serializing_if = "is_zero")]
    pub rejections: u32,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape that serde asks for"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl fmt::Debug for ClientFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFile")
            .field("client_id", &self.client_id)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl ClientFile {
    /// The kept client, if this authorization server knows it and its secret still holds.
    fn usable(self, files: &TokenFiles, issuer: &str, now: SystemTime) -> Option<Self> {
        // The agent in Python does not write down whom a client belongs to; the metadata beside it says so.
        let bound = self
            .issuer
            .clone()
            .or_else(|| files.metadata().map(|metadata| metadata.issuer))?;
        let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        let ends = self.client_secret_expires_at.filter(|end| *end != 0);
        (is_same_issuer(&bound, issuer)
            && !self.client_id.is_empty()
            && ends.is_none_or(|end| end > now))
        .then_some(self)
    }

    fn client(&self, metadata: &ServerMetadata) -> OAuthClient {
        let named = self.token_endpoint_auth_method.as_deref();
        OAuthClient {
            id: self.client_id.clone(),
            secret: self.client_secret.clone(),
            auth_method: named
                .and_then(ClientAuthMethod::from_name)
                .unwrap_or_else(|| auth_method_for(self.client_secret.as_ref(), metadata)),
            origin: ClientOrigin::Registered,
        }
    }
}

/// How a client with or without a secret proves who it is.
fn auth_method_for(secret: Option<&String>, metadata: &ServerMetadata) -> ClientAuthMethod {
    match secret {
        None => ClientAuthMethod::None,
        Some(_) if metadata.supports_auth_method("client_secret_basic") => {
            ClientAuthMethod::SecretInHeader
        }
        Some(_) => ClientAuthMethod::SecretInForm,
    }
}

/// Whether a registration was refused for what it says of the client.
fn is_metadata_refused(reply: &OAuthResponse) -> bool {
    matches!(
        reply.oauth_error(),
        Some(OAuthError::Refused { error, .. })
            if matches!(error.as_str(), "invalid_client_metadata" | "invalid_scope")
    )
}

/// Finds, registers and stores the client of one authorization server.
pub(super) struct ClientLookup<'a> {
    pub(super) requests: &'a OAuthHttpClient,
    pub(super) settings: &'a OAuthSettings,
    pub(super) files: &'a TokenFiles,
    pub(super) metadata: &'a ServerMetadata,
}

impl ClientLookup<'_> {
    /// The client that is there without asking anybody: configured, described, or registered before.
    pub(super) fn find_client(&self) -> Result<Option<OAuthClient>, OAuthError> {
        let Self {
            settings, metadata, ..
        } = self;
        if let Some(id) = &settings.client_id {
            self.check_binding(id)?;
            let proof = match (&settings.private_key, &settings.client_secret) {
                (Some(_), _) => ClientAuthMethod::SignedAssertion,
                (None, secret) => auth_method_for(secret.as_ref(), metadata),
            };
            return Ok(Some(OAuthClient {
                id: id.clone(),
                secret: settings.client_secret.clone(),
                auth_method: proof,
                origin: ClientOrigin::Configured,
            }));
        }
        if let Some(document) = &settings.client_metadata_url
            && metadata.client_id_metadata_document_supported == Some(true)
        {
            return Ok(Some(OAuthClient {
                id: document.clone(),
                secret: None,
                auth_method: ClientAuthMethod::None,
                origin: ClientOrigin::Document,
            }));
        }
        Ok(self.stored_client().map(|kept| kept.client(metadata)))
    }

    /// The registered client of this authorization server.
    pub(super) fn stored_client(&self) -> Option<ClientFile> {
        let kept = self.files.client()?;
        kept.usable(self.files, &self.metadata.issuer, SystemTime::now())
    }

    /// A client of the user's own goes to the authorization server that it was made for, or was first used with.
    fn check_binding(&self, id: &str) -> Result<(), OAuthError> {
        let configured = self.settings.issuer.clone();
        let bound = configured.or_else(|| {
            let kept = self.files.client().filter(|kept| kept.client_id == id)?;
            kept.issuer
        });
        match bound {
            Some(bound) if !is_same_issuer(&bound, &self.metadata.issuer) => {
                Err(OAuthError::ClientIssuerMismatch {
                    bound,
                    found: self.metadata.issuer.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Registers a new client, if the authorization server does that.
    pub(super) async fn register(
        &self,
        redirect_uri: &str,
        scope: Option<&str>,
    ) -> Result<Option<OAuthClient>, OAuthError> {
        let metadata = self.metadata;
        let Some(endpoint) = &metadata.registration_endpoint else {
            return Ok(None);
        };
        let endpoint = metadata.endpoint_url("registration_endpoint", Some(endpoint))?;
        let auth_method = [
            ClientAuthMethod::None,
            ClientAuthMethod::SecretInForm,
            ClientAuthMethod::SecretInHeader,
        ]
        .into_iter()
        .find(|proof| {
            metadata.token_endpoint_auth_methods_supported.is_none()
                || metadata.supports_auth_method(proof.as_str())
        })
        .unwrap_or(ClientAuthMethod::None);
        let mut grants = vec!["authorization_code", "refresh_token"];
        if metadata.device_authorization_endpoint.is_some() {
            grants.push(super::device::DEVICE_CODE_GRANT);
        }
        let mut description = json!({
            "client_name": self.settings.client_name,
            "redirect_uris": [redirect_uri],
            "grant_types": grants,
            "response_types": ["code"],
            "token_endpoint_auth_method": auth_method.as_str(),
            "application_type": "native",
        });
        // Scopes of the server itself may be strange to whom we register with, who then refuses.
        let is_known = |scope: &&str| {
            let mut words = scope.split(' ');
            metadata.scopes_supported.is_none() || words.all(|word| metadata.supports_scope(word))
        };
        if let Some(scope) = scope.filter(is_known) {
            description["scope"] = json!(scope);
        }
        let mut reply = self.requests.post_json(&endpoint, &description).await?;
        if is_metadata_refused(&reply)
            && let Some(members) = description.as_object_mut()
            && members.remove("scope").is_some()
        {
            // Whoever lists no scopes may know none of the server's, and still grant them to whoever asks.
            reply = self.requests.post_json(&endpoint, &description).await?;
        }
        if !reply.status.is_success() {
            return Err(match reply.oauth_error() {
                Some(refusal) => refusal,
                None => OAuthError::Unavailable {
                    what: display_url(&endpoint),
                    reason: format!("the client was not registered: HTTP {}", reply.status),
                },
            });
        }
        let unusable = |reason: &str| OAuthError::BadReply {
            what: display_url(&endpoint),
            reason: reason.to_owned(),
        };
        let mut registered: Value = reply.json().ok_or_else(|| unusable("it is not JSON"))?;
        if let Some(members) = registered.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        let mut file: ClientFile = serde_json::from_value(registered)
            .map_err(|error| unusable(&one_line(&error.to_string())))?;
        if file.client_id.is_empty() {
            return Err(unusable("it does not name a client"));
        }
        if file.redirect_uris.is_empty() {
            file.redirect_uris = vec![redirect_uri.to_owned()];
        }
        if file.token_endpoint_auth_method.is_none() {
            // Where a secret came that nobody asked for, it is used only if nothing else is accepted.
            let proof = match auth_method {
                ClientAuthMethod::None if !metadata.supports_auth_method("none") => {
                    auth_method_for(file.client_secret.as_ref(), metadata)
                }
                other => other,
            };
            file.token_endpoint_auth_method = Some(proof.as_str().to_owned());
        }
        file.issuer = Some(metadata.issuer.clone());
        file.rejections = 0;
        self.files.store_client(&file)?;
        Ok(Some(file.client(metadata)))
    }

    /// Writes down a client that did not register itself, so that it stays with its authorization server and that the
    /// agent in Python finds it.
    pub(super) fn store_client(
        &self,
        client: &OAuthClient,
        redirect_uri: &str,
    ) -> Result<(), OAuthError> {
        if client.origin == ClientOrigin::Registered {
            return Ok(());
        }
        self.files.store_client(&ClientFile {
            client_id: client.id.clone(),
            client_secret: client.secret.clone(),
            redirect_uris: vec![redirect_uri.to_owned()],
            token_endpoint_auth_method: Some(client.auth_method.as_str().to_owned()),
            issuer: Some(self.metadata.issuer.clone()),
            ..ClientFile::default()
        })
    }

    /// Notes that the authorization server does not know the registered client. Once may be an accident; the second time
    /// it is put aside, so that the next login registers again.
    pub(super) fn record_rejection(&self, client: &OAuthClient) -> Result<(), OAuthError> {
        let Some(mut kept) = self
            .files
            .client()
            .filter(|kept| kept.client_id == client.id)
        else {
            return Ok(());
        };
        if client.origin != ClientOrigin::Registered {
            return Ok(());
        }
        kept.rejections += 1;
        if kept.rejections >= 2 {
            return self.files.retire_client();
        }
        self.files.store_client(&kept)
    }
}
