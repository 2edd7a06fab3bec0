//! OAuth 2.1 for remote servers: who may give out tokens for a server, how one is got, kept, renewed and sent.
//!
//! [`Login`] is what a person goes through: it finds the authorization server, becomes a client of it, sends the person
//! there and keeps what comes back. A host never asks a person: its `Authorizer` reads the token file before each request,
//! renews what is about to expire, and otherwise lets the server's state say that a login is needed.
//!
//! rmcp has a client of its own. It is not used: it keeps its state in one process, while here several processes and
//! Hermes Agent in Python share the files of [`TokenFiles`], and it knows neither device codes, DPoP nor workload
//! identity.

mod address;
mod authorize;
mod authorizer;
mod callback;
mod challenge;
mod client;
mod device;
mod discovery;
mod dpop;
mod error;
mod files;
mod jwt;
mod login;
mod login_ui;
mod noninteractive;
mod pkce;
mod refresh;
mod requests;
mod stored;
mod token_endpoint;
mod tokens;

pub(crate) use authorizer::{AuthRefusal, Authorizer, Credentials, OAuthSource, RefusalAction};
pub use callback::AuthorizationRedirect;
pub use challenge::Challenge;
pub use client::ClientFile;
pub use device::DeviceCode;
pub use discovery::ServerMetadata;
pub use error::OAuthError;
pub use files::{ForgetScope, TokenFiles};
pub use login::{Login, PendingLogin};
pub use tokens::Tokens;

pub use crate::oauth::{
    login_ui::{AuthorizationPrompt, ClientIdentity, LoginFlow, LoginMode, LoginSummary, LoginUi},
    stored::{ending_login, missing_login},
};
