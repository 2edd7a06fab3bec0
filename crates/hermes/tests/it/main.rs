//! Tests of the program as a whole.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod architecture;
mod attacks;
mod chat;
mod cron;
mod documents;
#[cfg(target_os = "linux")]
mod embedded_hub;
mod gateway;
mod generated_secrets;
mod harness;
mod hub;
mod mcp;
mod model;
mod pairing;
mod secret;
mod send;
mod sessions;
mod setup;
mod skills;
mod up;
