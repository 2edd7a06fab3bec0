//! REST, MCP and the documents, over real sockets.

mod aftermath;
mod agreement;
mod defaults;
mod direct;
mod doors;
mod examples;
mod faults;
mod fresh;
mod homes;
mod jobs;
mod links;
mod listeners;
mod members;
mod parity;
mod paths;
mod private;
mod resources;
mod restart;
mod rights;
pub(crate) mod scene;
mod sessions;
mod slow;
mod storage;
mod strict;
mod tampered;
mod tls;
mod unlogged;
