//! REST, MCP and the documents, over real sockets.

mod doors;
mod examples;
mod jobs;
mod links;
mod parity;
mod private;
mod resources;
mod restart;
mod sessions;
mod slow;
mod strict;
mod tls;
