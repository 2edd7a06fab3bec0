//! The MCP host: connects the servers of a Hermes home, keeps them alive and offers their tools.
//!
//! [`Host`] is the way in. It owns one connection task per server; each publishes its [`link::Link`], and the host
//! turns all of them into immutable [`registry::Registry`] snapshots that callers take once per turn.

pub mod arguments;
pub mod batch;
pub mod breaker;
pub mod call;
pub mod catalog;
pub mod config_watch;
mod connection;
pub mod content;
pub mod control;
pub mod counters;
pub mod demo;
pub mod description_scan;
pub mod environment;
pub mod era;
mod error_text;
pub mod filter;
pub mod host;
pub mod link;
pub mod manifest;
pub mod names;
pub mod oauth;
mod osv;
pub mod outcome;
mod package_runner;
pub mod pins;
pub mod process;
pub mod registry;
pub mod sandbox;
pub mod schema;
pub mod serve;
mod server_handle;
pub mod server_request;
pub mod session;
pub mod status;
pub mod toolset;
pub mod transport;

pub use crate::server_request::ServerRequestHandler;
pub use call::{CallError, CallOptions};
pub use host::{Host, HostOptions, HostRequest, ReloadReport, RememberedTools, RequestOutcome};
pub use names::{RegisteredName, ToolName};
pub use outcome::Outcome;
pub use registry::{RegisteredTool, Registry};

/// The protocol's own types, for those who answer the questions of servers.
pub mod protocol {
    pub use rmcp::model::*;
}
