//! The transports that reach a server.

pub(crate) mod boxed;
mod decode;
pub(crate) mod health;
pub mod http;
pub(crate) mod replay;
pub mod sse;
pub mod stdio;
