//! Servers that misbehave. Whatever they do, their neighbour and the process go on.

mod changes;
mod generated_secrets;
mod lists;
pub(crate) mod log;
pub(crate) mod memory;
mod secrets;
mod streams;
