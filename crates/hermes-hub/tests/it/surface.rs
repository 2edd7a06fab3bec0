//! REST, MCP and the documents, over real sockets.

mod doors;
mod examples;
mod faults;
mod jobs;
mod links;
mod parity;
mod paths;
mod resources;
mod restart;
mod rights;
pub(crate) mod scene;
mod sessions;
mod strict;
mod tls;
