//! Integration tests of the MCP host.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod http;
