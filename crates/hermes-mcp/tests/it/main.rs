//! Integration tests of the MCP host, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod calls;
mod config_watch;
mod connection;
mod control;
mod era;
mod faults;
mod http;
mod http_faults;
mod http_reconnect;
mod lazy;
mod list_changes;
mod oauth;
mod orphans;
mod osv;
mod pins;
mod process;
mod real_servers;
mod reconnect;
mod recycling;
mod reload;
mod sandbox;
mod server_request;
mod setup;
mod test_host;
mod toolset;
