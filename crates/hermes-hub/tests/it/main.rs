//! The Hub from outside.

#![allow(
    clippy::duplicate_mod,
    reason = "one suite for two databases, and for directories and objects"
)]
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod agent_harness;
mod api_types;
mod auth;
mod console;
mod fuzz;
mod http;
mod hub;
mod hub_on_postgres;
mod link_swapper;
mod mcp_client;
mod nodes;
mod operations;
mod rest_request;
mod service;
mod storage;
pub(crate) mod tenant_fixture;
mod tenants;
mod test_hub;
mod webhook_target;
