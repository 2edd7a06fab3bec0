//! Integration tests of the MCP host, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod calls;
mod faults;
mod http;
mod http_faults;
mod inquiries;
#[cfg(unix)]
mod process;
mod real_servers;
mod setup;
