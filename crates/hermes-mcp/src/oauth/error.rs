//! Why there is no token. The texts never hold one.

use std::time::Duration;

/// Why authorization failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// There is no token, and only a person can get one.
    #[error("there is no login yet")]
    NotLoggedIn,
    /// There were tokens, but the file cannot be read any more.
    #[error("the login is lost: {path} is damaged")]
    LoginDamaged { path: String },
    /// There are tokens, but for another server than the one that is configured now.
    #[error("the login is for {resource}, which is no longer this server's address")]
    WrongServer {
        /// What they are for.
        resource: String,
    },
    /// The authorization server does not renew the login any more.
    #[error("the login has ended: {reason}")]
    LoginExpired {
        /// In the authorization server's words.
        reason: String,
    },
    /// The server wants scopes that the login did not ask for.
    #[error("the server requires more rights than the login has: `{scope}`")]
    ScopeMissing {
        /// What is missing, separated by spaces.
        scope: String,
    },
    /// The server wants scopes again and again, though the login asked for them.
    #[error(
        "the server keeps requesting `{scope}`, which the login has already requested; your account may lack that right"
    )]
    ScopeRefused {
        /// What it asks for.
        scope: String,
    },
    /// Something on the way did not answer, or with a failure of its own. Trying later may help.
    #[error("{what} does not answer: {reason}")]
    Unavailable {
        /// Which part, with its address.
        what: String,
        reason: String,
    },
    /// Something on the way answered what makes no sense. Trying later may help.
    #[error("the reply of {what} cannot be used: {reason}")]
    BadReply {
        /// Whose, with its address.
        what: String,
        reason: String,
    },
    /// The server names nobody who gives out tokens for it.
    #[error("no authorization server was found for {server}: {reason}")]
    NoAuthorizationServer {
        /// The server's address.
        server: String,
        reason: String,
    },
    /// Metadata that cannot be used.
    #[error("the metadata at {url} cannot be used: {reason}")]
    Metadata {
        /// Its address.
        url: String,
        reason: String,
    },
    /// An address that must not be asked.
    #[error("{url} is not requested: {reason}")]
    Address {
        /// The address, without its query.
        url: String,
        reason: String,
    },
    /// A redirect that leads elsewhere.
    #[error("{url} redirects to {target}, which is not followed")]
    Redirected {
        /// What was asked.
        url: String,
        /// Where it leads to.
        target: String,
    },
    /// The authorization server does not protect codes by PKCE.
    #[error(
        "the authorization server {issuer} does not offer PKCE with S256, without which a login is not safe"
    )]
    NoPkce { issuer: String },
    /// A client is kept for another authorization server.
    #[error(
        "the client belongs to {bound}, but the server now names {found}; if that is right, set `oauth.issuer`, or forget \
         the old one with `hermes mcp logout --client`"
    )]
    ClientIssuerMismatch {
        /// Whom it was registered with.
        bound: String,
        /// Who asks for it now.
        found: String,
    },
    /// There is no way to become a client of the authorization server.
    #[error(
        "the authorization server {issuer} does not support client registration; register a client there with the redirect address \
         {redirect_uri}, and set `oauth.client_id`, and `oauth.redirect_port` to the port of that address"
    )]
    NoClient {
        issuer: String,
        /// Where its answers would go.
        redirect_uri: String,
    },
    /// An answer that cannot be told to belong to this login.
    #[error(
        "the reply has no `state`, so it may belong to another login; if you pasted it, paste all of the address, in \
         quotes"
    )]
    NoState,
    /// An answer to a login that was not this one.
    #[error("the reply does not belong to this login (its `state` is wrong)")]
    WrongState,
    /// An answer in the name of another authorization server.
    #[error("the reply comes from `{found}`, but the login began at `{expected}`; it is not used")]
    WrongIssuer {
        /// Where the login began.
        expected: String,
        /// Who answered.
        found: String,
    },
    /// An answer that does not say whose it is, where all of them should.
    #[error(
        "the reply has no `iss`, which {expected} sends, so it is not used; if you pasted it, \
         paste all of the address, in quotes"
    )]
    NoIssuer {
        /// Where the login began.
        expected: String,
    },
    /// The answer has neither code nor error.
    #[error("that is not the reply to a login: it has no `code`")]
    NoCode,
    /// The authorization server or the person said no.
    #[error("the login was refused: {0}")]
    Denied(String),
    /// The token endpoint refused.
    #[error("the authorization server refused: {error}{}", .description.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// The code, such as `invalid_grant`.
        error: String,
        /// More words.
        description: Option<String>,
    },
    #[error(
        "port {port}, which waits for the browser's redirect, is in use: {reason}; stop the program that uses it, or set \
         `oauth.redirect_port` to another one"
    )]
    PortInUse { port: u16, reason: String },
    /// The person did not come back in time.
    #[error("the login did not end within {} s; `oauth.timeout` allows more", .0.as_secs())]
    TimedOut(Duration),
    /// The person does not want to.
    #[error("the login was cancelled")]
    Cancelled,
    /// The person has to go somewhere first; what is waited for comes by another command.
    #[error(
        "open {url} in a browser, and pass the address that it ends at to `hermes mcp login {server} --code 'ADDRESS'`"
    )]
    RedirectPending {
        server: String,
        /// Where to go.
        url: String,
    },
    /// No login was begun that this would be the answer to.
    #[error(
        "no login is waiting for a reply; start one with `hermes mcp login {server} --no-browser`"
    )]
    NoPendingLogin { server: String },
    /// A setting is missing or cannot be used.
    #[error("`{key}`: {reason}")]
    Setting { key: &'static str, reason: String },
    /// A file of the home.
    #[error("{path}: {reason}")]
    File { path: String, reason: String },
}

impl OAuthError {
    /// Whether what was pasted is not the answer to this login, so that another paste may be.
    pub(super) fn is_wrong_paste(&self) -> bool {
        matches!(
            self,
            Self::NoCode | Self::NoState | Self::WrongState | Self::NoIssuer { .. }
        )
    }

    /// Whether nothing but a login by a person helps.
    pub fn needs_login(&self) -> bool {
        matches!(
            self,
            Self::NotLoggedIn
                | Self::LoginDamaged { .. }
                | Self::WrongServer { .. }
                | Self::LoginExpired { .. }
                | Self::ScopeMissing { .. }
        )
    }
}
