//! Tests of the program as a whole.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod architecture;
mod attacks;
mod chat;
#[cfg(target_os = "linux")]
mod console;
mod cron;
#[cfg(target_os = "linux")]
mod deployment;
mod documents;
#[cfg(target_os = "linux")]
mod embedded_hub;
mod gateway;
mod generated_secrets;
mod harness;
mod hub;
mod mcp;
mod model;
#[cfg(target_os = "linux")]
mod nodes;
mod pairing;
mod secret;
mod send;
mod sessions;
mod setup;
mod skills;
mod up;
