//! REST, MCP and the documents, over real sockets.

mod defaults;
mod doors;
mod examples;
mod jobs;
mod links;
mod listeners;
mod parity;
mod private;
mod resources;
mod restart;
mod sessions;
mod slow;
mod storage;
mod strict;
mod tls;
