//! Integration tests of the MCP host, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

#[cfg(unix)]
mod process;
//! Integration tests of the MCP host.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod http;
