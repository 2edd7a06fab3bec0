//! The agent: what a conversation consists of, and the models that continue it.
//!
//! [`conversation::Conversation`] is the entry point: a stored session with its tools and its model.
//! [`model::resolve_model`] finds the configured model; [`model::Model`] turns messages into a reply.

pub mod approval;
pub mod compact;
pub mod conversation;
#[cfg(unix)]
pub mod cron;
pub mod mention;
pub mod message;
pub mod model;
pub mod policy;
pub mod printable;
pub mod prompt_command;
pub mod retry_after;
pub mod server_requests;
#[cfg(unix)]
pub mod speech;
pub mod tools;
pub mod turn;
