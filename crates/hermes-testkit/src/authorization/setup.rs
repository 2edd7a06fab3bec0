//! What an authorization server offers, what can go wrong, and where.

use std::time::Duration;

/// The offer. The default is what a careful server has today: discovery, registration, PKCE, `iss`, rotation.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an offer of its own and they combine freely"
)]
pub struct AuthorizationSetup {
    /// The path of the issuer, for instance `/tenant`; mostly empty.
    pub path: String,
    /// Where the metadata are.
    pub discovery: Discovery,
    /// Lets clients register themselves.
    pub dynamic_registration: bool,
    /// The scopes that these may register for; absent: all.
    pub registered_scopes: Option<Vec<String>>,
    /// Takes the address of a document for a client's name.
    pub client_documents: bool,
    /// The methods of PKCE that the metadata list; with none they say nothing of it.
    pub challenge_methods: Vec<String>,
    /// How clients may authenticate at the token endpoint.
    pub authentication_methods: Vec<String>,
    /// Names itself in authorization responses, and says so beforehand.
    pub issuer_parameter: bool,
    pub scopes: Vec<String>,
    /// How long access tokens last.
    pub lifetime: Duration,
    pub refresh_tokens: RefreshTokens,
    /// Whether tokens are bound to a key.
    pub proof: ProofOfPossession,
    /// Offers codes for devices without a browser.
    pub device_codes: bool,
}

impl Default for AuthorizationSetup {
    fn default() -> Self {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Self {
            path: String::new(),
            discovery: Discovery::OAuth,
            dynamic_registration: true,
            registered_scopes: None,
            client_documents: false,
            challenge_methods: owned(&["S256"]),
            authentication_methods: owned(&[
                "none",
                "client_secret_basic",
                "client_secret_post",
                "private_key_jwt",
            ]),
            issuer_parameter: true,
            scopes: owned(&["mcp:read", "mcp:write", "offline_access"]),
            lifetime: Duration::from_hours(1),
            refresh_tokens: RefreshTokens::Rotating,
            proof: ProofOfPossession::No,
            device_codes: false,
        }
    }
}

impl AuthorizationSetup {
    /// The default with a change.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut setup = Self::default();
        change(&mut setup);
        setup
    }
}

/// Where the metadata are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discovery {
    /// `/.well-known/oauth-authorization-server` and the issuer's path.
    OAuth,
    /// `/.well-known/openid-configuration` and the issuer's path.
    OpenIdInserted,
    /// The issuer's path and `/.well-known/openid-configuration`.
    OpenIdAppended,
    /// Nowhere.
    None,
}

/// What becomes of refresh tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshTokens {
    /// Each is good once and brings the next; a second use ends all of them.
    Rotating,
    /// The first stays good, and replies to a refresh have none.
    Lasting,
    None,
}

/// Whether tokens are bound to a key (DPoP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofOfPossession {
    /// Not known here.
    No,
    /// Whoever sends a proof gets a bound token.
    Offered,
    /// Only bound tokens are issued and taken.
    Required,
    /// The same, and every proof has to hold the server's nonce.
    RequiredWithNonce,
}

/// A place that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// The `WWW-Authenticate` header of the MCP server.
    Challenge,
    /// The MCP server's identifier in its metadata.
    Resource,
    /// The metadata of the MCP server.
    ResourceMetadata,
    /// The metadata of the authorization server.
    ServerMetadata,
    /// Where clients register themselves.
    Registration,
    /// Where people consent.
    Authorization,
    /// Where tokens are issued.
    Token,
    /// Where device codes are issued.
    DeviceCode,
    /// Where people enter a device's code.
    Activation,
    /// Where tokens are given back.
    Revocation,
    Keys,
}

/// How it fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointFault {
    /// A bare status, for instance 500.
    Status(u16),
    /// No answer, ever.
    Hang,
    /// A proper answer after this time.
    Delay(Duration),
    /// 307 to this address.
    Redirect(String),
    /// 200 with this body, said to be JSON.
    Junk(String),
    /// 400 with an error whose description repeats the whole request: its form, decoded, and its `Authorization`.
    Repeat,
    /// Metadata and challenges name this address for it: for [`Endpoint::Challenge`] as `resource_metadata`, for
    /// [`Endpoint::ResourceMetadata`] as the authorization server, for [`Endpoint::ServerMetadata`] as the issuer.
    Advertised(String),
}

/// What is wrong with the redirect back to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackFault {
    /// Another `state` than the client's.
    WrongState,
    /// No `state`.
    MissingState,
    /// This `iss`.
    WrongIssuer(String),
    /// No `iss`, though the metadata promise it.
    MissingIssuer,
    /// No code but an error with this description. Devices are denied.
    Refused(String),
}
