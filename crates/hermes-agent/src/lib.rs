//! The agent: what a conversation consists of, and the models that continue it.
//!
//! [`conversation::Conversation`] is the way in: a session that is stored, with its tools and its model.
//! [`model::resolve`] finds the model a home wants; the [`model::Model`] it gives turns messages into a reply.

pub mod approval;
pub mod ceiling;
pub mod compact;
pub mod conversation;
#[cfg(unix)]
pub mod cron;
pub mod elicitation;
pub mod inquiries;
pub mod mention;
pub mod message;
pub mod model;
pub mod printable;
pub mod prompt_command;
mod results;
pub mod sampler;
pub mod tool;
pub mod toolbox;
pub mod tools;
pub mod turn;
