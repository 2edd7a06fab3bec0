//! Integration tests of the MCP host, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod call;
mod connection;
mod control;
mod host;
mod oauth;
mod packages;
mod process;
mod real_servers;
mod secrets;
mod server_request;
mod setup;
mod test_host;
mod tools;
mod transport;
