//! The MCP host: connects the servers of a Hermes home, keeps them alive and offers their tools.
//!
//! [`Host`] is the way in. It owns one connection task per server; each publishes its [`Link`], and the host
//! turns all of them into immutable [`Registry`] snapshots that callers take once per turn.

mod cache_file;
pub mod call;
pub mod connection;
pub mod control;
pub mod host;
pub mod http_client;
pub mod oauth;
mod packages;
pub mod process;
pub mod server_request;
pub mod tools;
pub mod transport;

pub use call::{CallError, CallOptions, outcome::Outcome};
pub use connection::{
    RememberedTools,
    link::{Link, LinkStatus, LoginAdvice},
    session::{McpSession, Progress},
};
pub use hermes_serve::Era;
pub use host::{
    ApprovalCheck, Host, HostOptions, HostRequest, ReloadReport, RequestOutcome,
    config_watch::ConfigWatch, status::ServerStatus,
};
pub use server_request::ServerRequestHandler;
pub use tools::{
    names::{RegisteredName, ToolName},
    registry::{RegisteredTool, Registry, ToolApproval, ToolOrigin, UtilityTool},
};

/// The protocol's own types, for those who answer the questions of servers.
pub mod protocol {
    pub use rmcp::model::*;
}
