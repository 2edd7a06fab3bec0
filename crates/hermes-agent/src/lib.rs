//! The agent: what a conversation consists of, and the models that continue it.
//!
//! A [`model::Model`] turns messages into a reply.

pub mod message;
pub mod model;
