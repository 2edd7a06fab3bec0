//! The MCP host: connects the servers of a Hermes home, keeps them alive and offers their tools.
//!
//! [`Host`] is the way in. It owns one connection task per server; each publishes its [`link::Link`], and the host
//! turns all of them into immutable [`registry::Registry`] snapshots that callers take once per turn.

pub mod arguments;
pub mod batch;
pub mod breaker;
pub mod call;
pub mod catalog;
mod connection;
pub mod content;
pub mod control;
pub mod counters;
pub mod demo;
pub mod description_scan;
pub mod environment;
pub mod era;
pub mod filter;
pub mod host;
pub mod inquiry;
pub mod link;
pub mod manifest;
pub mod names;
pub mod oauth;
mod osv;
pub mod outcome;
mod owner;
mod package_runner;
pub mod pins;
pub mod process;
mod reason;
pub mod registry;
pub mod sandbox;
pub mod schema;
pub mod serve;
pub mod session;
pub mod status;
pub mod toolset;
pub mod transport;
pub mod watch;

pub use call::{CallError, CallOptions};
pub use host::{Host, HostOptions, ReloadReport, RememberedTools, RequestReport, ServerRequest};
pub use inquiry::Inquiries;
pub use names::{RegisteredName, ToolName};
pub use outcome::Outcome;
pub use registry::{RegisteredTool, Registry};

/// The protocol's own types, for those who answer the questions of servers.
pub mod protocol {
    pub use rmcp::model::*;
}
