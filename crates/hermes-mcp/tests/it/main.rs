//! Integration tests of the MCP host, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod calls;
mod changes;
mod control;
mod era;
mod faults;
mod host;
mod http;
mod http_faults;
mod http_gone;
mod inquiries;
mod lazy;
mod life_cycle;
mod oauth;
mod orphans;
mod pinning;
mod process;
mod real_servers;
mod reconnect;
mod recycling;
mod reload;
mod sandbox;
mod setup;
mod toolsets;
mod vetting;
mod watch;
