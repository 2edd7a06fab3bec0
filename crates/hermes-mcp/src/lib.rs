//! The MCP host: connects the servers of a Hermes home, keeps them alive and offers their tools.
//!
//! [`Host`] is the way in. It owns one connection task per server; each publishes its [`link::Link`], and the host
//! turns all of them into immutable [`registry::Registry`] snapshots that callers take once per turn.

pub mod arguments;
pub mod batch;
pub mod breaker;
pub mod content;
pub mod demo;
pub mod environment;
pub mod filter;
pub mod names;
pub mod outcome;
pub mod process;
pub mod schema;
pub mod transport;
