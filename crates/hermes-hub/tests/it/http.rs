//! REST, MCP and the documents, over real sockets.

mod authentication;
mod mcp_fast_path;
mod mcp_sessions;
mod path_traversal;
mod private;
mod request_limits;
mod request_validation;
mod tls;
mod unauthenticated;
