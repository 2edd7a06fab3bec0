//! The bridge: an MCP server over the conversations of a home (`hermes mcp serve`).

pub mod events;
pub mod index;
