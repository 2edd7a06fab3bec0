//! Tests of the program as a whole.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod architecture;
mod attacks;
mod chat;
mod chat_terminal;
mod cron;
mod documents;
mod equipment;
mod gateway;
mod generated_secrets;
mod hub;
mod interactive;
mod mcp_config;
mod mcp_requests;
mod mcp_status;
mod model;
mod oauth;
mod program;
mod pty;
mod question;
mod sandbox;
mod screen_terminal;
mod secret;
mod send;
mod serve;
mod sessions;
mod setup;
mod skills;
mod steering;
#[cfg(target_os = "linux")]
mod tenants;
mod terminal;
mod test_home;
mod up;
