//! The transports, and servers that misbehave on them. Whatever they do, their neighbour goes on.

pub(crate) mod http;
mod stdio;
