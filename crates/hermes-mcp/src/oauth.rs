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
mod kept;
mod lock;
mod login;
mod machine;
mod metadata;
mod page;
mod person;
mod pkce;
mod refresh;
mod requests;
mod scope;
mod token_endpoint;
mod tokens;

pub(crate) use authorizer::{Authorizer, Credentials, OAuthSource, Refusal, Verdict};
pub use callback::Redirect;
pub use challenge::Challenge;
pub use client::ClientFile;
pub use device::DeviceCode;
pub use error::OAuthError;
pub use files::{Forgotten, TokenFiles};
pub use kept::missing_login;
pub use login::{Login, PendingLogin};
pub use metadata::ServerMetadata;
pub use person::{ClientIdentity, Flow, LoggedIn, Person, Presence, Visit};
pub use tokens::Tokens;
