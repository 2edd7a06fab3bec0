//! Integration tests of the MCP host, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

#[cfg(unix)]
mod changes;
#[cfg(unix)]
mod control;
#[cfg(unix)]
mod era;
#[cfg(unix)]
mod host;
mod http;
#[cfg(unix)]
mod lazy;
#[cfg(unix)]
mod life_cycle;
#[cfg(unix)]
mod orphans;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod reconnect;
#[cfg(unix)]
mod recycling;
#[cfg(unix)]
mod reload;
#[cfg(unix)]
mod toolsets;
#[cfg(unix)]
mod watch;
