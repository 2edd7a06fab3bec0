//! `auth` and `oauth.*`: how a remote server's users log in.

use std::time::Duration;

use serde::Serialize;

/// `auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Auth {
    /// OAuth 2.1 with PKCE.
    OAuth,
}

/// `oauth.*`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OAuthSettings {
    /// Pre-registered client.
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    /// Its private key, as PEM text, for an authorization server that wants a signed assertion instead of a secret.
    pub private_key: Option<String>,
    /// The authorization server it is registered with; another one never gets to see it.
    pub issuer: Option<String>,
    /// Space separated; wins over the server's choice.
    pub scope: Option<String>,
    /// Callback port, 0 for any free one.
    pub redirect_port: u16,
    /// Proxied https callback.
    pub redirect_uri: Option<String>,
    /// Host shown in the callback address.
    pub redirect_host: String,
    /// Name in registration.
    pub client_name: String,
    /// The whole interactive flow.
    pub timeout: Duration,
    /// Which grant; without one, what the authorization server offers decides.
    pub grant: Option<OAuthGrant>,
    /// CIMD document.
    pub client_metadata_url: Option<String>,
    /// A workload's own identity token, exchanged for access by the grant `jwt_bearer`. It is replaced all the time,
    /// and a new one does not cause a reconnect.
    #[serde(skip_serializing)]
    pub assertion: Option<String>,
    /// An employer's identity provider, which identifies its people.
    pub enterprise: Option<EnterpriseSettings>,
    /// Whether access tokens are bound to a key of ours.
    pub dpop: DpopUse,
}

impl Default for OAuthSettings {
    fn default() -> Self {
        Self {
            client_id: None,
            client_secret: None,
            private_key: None,
            issuer: None,
            scope: None,
            redirect_port: 0,
            redirect_uri: None,
            redirect_host: "127.0.0.1".into(),
            client_name: "Hermes Agent".into(),
            timeout: Duration::from_mins(5),
            grant: None,
            client_metadata_url: None,
            assertion: None,
            enterprise: None,
            dpop: DpopUse::Auto,
        }
    }
}

/// `oauth.grant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum OAuthGrant {
    /// Browser and callback.
    AuthorizationCode,
    /// RFC 8628.
    DeviceCode,
    /// No person involved: a secret or a private key.
    ClientCredentials,
    /// No person involved: a workload's identity token.
    JwtBearer,
    /// An employer's identity provider identifies the person.
    EnterpriseManaged,
}

/// `oauth.enterprise.*`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EnterpriseSettings {
    /// The identity provider; its metadata names the token endpoint.
    pub issuer: Option<String>,
    /// Its token endpoint, where there is no metadata.
    pub token_endpoint: Option<String>,
    /// The client that the person logged in with there.
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    /// The person's identity token.
    #[serde(skip_serializing)]
    pub id_token: String,
}

/// `oauth.dpop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum DpopUse {
    /// Where the server asks for it.
    Auto,
    /// Wherever the authorization server can.
    On,
    /// Never.
    Off,
}
