//! The two protocols of model servers: requests, streamed replies, error replies.

pub(crate) mod anthropic;
pub(crate) mod calls;
pub(crate) mod chat;
pub(crate) mod refusal;
