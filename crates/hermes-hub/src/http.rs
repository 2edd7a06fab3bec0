//! The ways in: REST, MCP and the private routes of agents, their middleware, and the listeners.

pub(crate) mod connections;
pub(crate) mod gauges;
pub(crate) mod json;
pub(crate) mod login_callback;
pub(crate) mod mcp;
pub(crate) mod middleware;
pub(crate) mod private;
pub(crate) mod rest;
