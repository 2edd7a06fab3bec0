//! REST, MCP and the documents, over real sockets.

mod doors;
mod examples;
mod parity;
mod resources;
mod sessions;
mod strict;
mod tls;
