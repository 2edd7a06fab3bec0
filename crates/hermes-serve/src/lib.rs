//! The server side of MCP for any handler, in both eras: on stdin and stdout, or over Streamable HTTP.
//!
//! What a server offers is its handler's; here are the ways in and their limits. Over HTTP a layer in front says who
//! asks ([`Principal`]): [`http::with_bearer`] for one token, or the owner's own.

use std::sync::Arc;

use rmcp::service::ServerInitializeError;

mod boxed_handler;
pub mod demo;
pub mod era;
pub mod http;
mod options;
pub mod records;
mod session_manager;
mod sessions;
pub mod stdio;
#[cfg(test)]
mod tests;

pub use era::Era;
pub use options::HttpServeOptions;

/// Who a request is from. It goes with the request to its handler.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// Who sent a request that came over HTTP.
    pub fn from_extensions(extensions: &rmcp::model::Extensions) -> Option<&Self> {
        extensions.get::<::http::request::Parts>()?.extensions.get()
    }
}

/// Why a server stopped that was not asked to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The first message was not one a server can begin with.
    #[error("the client did not open the connection as MCP requires: {0}")]
    Initialize(#[source] Box<ServerInitializeError>),
    #[error("the server failed: {0}")]
    Task(#[from] tokio::task::JoinError),
    #[error("the server cannot continue: {0}")]
    Socket(#[from] std::io::Error),
}
