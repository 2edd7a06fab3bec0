//! REST, MCP and the documents, over real sockets.

mod doors;
mod examples;
mod fresh;
mod jobs;
mod links;
mod parity;
mod resources;
mod restart;
mod sessions;
mod strict;
mod tls;
