//! The wires a server is reached by.

mod decode;
pub mod http;
pub mod sse;
pub mod stdio;
pub mod tls;
