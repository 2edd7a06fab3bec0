//! Questions to the person during a chat: approvals, clarifications, forms, and the queue they wait in.

pub(crate) mod approval;
pub(crate) mod questions;
pub(crate) mod queue;
