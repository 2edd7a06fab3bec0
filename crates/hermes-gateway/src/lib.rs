//! Messaging: what is sent to the platforms, and the MCP server over all their conversations.
//!
//! Everything takes a [`Home`](hermes_config::Home). Reading needs neither network nor a running gateway, and sending
//! calls the platforms directly.

pub mod bridge;
pub mod conversations;
mod lock_patience;
pub mod send;
