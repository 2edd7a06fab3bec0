//! The Hub from outside.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod agent_harness;
mod agents;
mod api_types;
mod backup;
mod files;
mod fuzz;
mod http;
mod link_swapper;
mod mcp_client;
mod rest_request;
mod runs;
mod scheduler;
mod state;
mod sync;
mod test_hub;
