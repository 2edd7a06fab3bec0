//! The user interface of a login: what is shown and asked, and the result.

use futures::future::BoxFuture;

use super::{DeviceCode, OAuthError};

/// The user interface of a login. Its methods may take as long as a person takes; the login has its own timeout.
pub trait LoginUi: Send + Sync {
    /// Whether the answer can come while the login is waited for.
    fn mode(&self) -> LoginMode {
        LoginMode::Interactive
    }

    /// Shows the address to go to, and opens it if that is possible.
    fn open_url<'a>(&'a self, visit: &'a AuthorizationPrompt) -> BoxFuture<'a, ()>;

    /// Waits for an answer that the person types or pastes. Pending for ever where nobody can.
    fn read_redirect(&self) -> BoxFuture<'_, Result<String, OAuthError>> {
        Box::pin(std::future::pending())
    }

    /// Tells why what was pasted is not the answer. It is asked for once more.
    fn reject_redirect(&self, error: &OAuthError) {
        let _ = error;
    }

    /// Shows a code to enter elsewhere.
    fn show_device_code<'a>(&'a self, code: &'a DeviceCode) -> BoxFuture<'a, ()> {
        let _ = code;
        Box::pin(async {})
    }

    /// Asks for a client that the person has registered, with this address for answers; `None` if there is none.
    fn request_client<'a>(
        &'a self,
        issuer: &'a str,
        redirect_uri: &'a str,
    ) -> BoxFuture<'a, Option<ClientIdentity>> {
        let _ = (issuer, redirect_uri);
        Box::pin(async { None })
    }
}

/// Where the person is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginMode {
    /// At this machine's browser or terminal.
    Interactive,
    /// Elsewhere: nothing waits, and another command brings the answer.
    Deferred,
}

/// A client that a person names.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    pub id: String,
    pub secret: Option<String>,
}

/// Where a person is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationPrompt {
    /// The address to open.
    pub url: String,
    /// Who is there.
    pub issuer: String,
    /// Where the answer goes.
    pub redirect_uri: String,
    /// Whether that is waited for here, or the person has to bring the answer.
    pub has_listener: bool,
}

/// `--flow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginFlow {
    /// A browser on this machine.
    Browser,
    /// The answer is pasted; no port is opened.
    Paste,
    /// A code that is entered elsewhere.
    Device,
    /// No person.
    ClientCredentials,
}

/// What a login brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginSummary {
    /// Who gave out the tokens.
    pub issuer: String,
    /// When the access token ends, in seconds since 1970.
    pub expires_at: Option<u64>,
    /// What it allows, as far as that was said.
    pub scope: Option<String>,
    /// Whether it is renewed without a person.
    pub is_renewable: bool,
}
