//! Messaging: sending to platforms, the MCP server over all their conversations, and the gateway that runs
//! for a home.
//!
//! Everything takes a [`Home`](hermes_config::Home). Reading needs neither network nor a running gateway, and sending
//! calls the platforms directly. A [`Gateway`](gateway::Gateway) runs turns and cron jobs as [`runs`], which the local
//! HTTP API ([`api`]) starts, watches, stops and decides.

pub mod access;
#[cfg(unix)]
pub mod api;
pub mod bridge;
pub mod channel_directory;
pub mod chat_commands;
pub mod conversations;
#[cfg(unix)]
pub mod delivery;
pub mod delivery_targets;
#[cfg(unix)]
pub mod gateway;
#[cfg(unix)]
pub mod inbound;
#[cfg(unix)]
pub mod instance;
pub mod messenger;
#[cfg(unix)]
mod operator_requests;
pub mod outbound;
pub mod platform;
pub mod platforms;
#[cfg(unix)]
pub mod runs;
pub mod send;
pub mod session_reset;
#[cfg(unix)]
pub mod ticker;
