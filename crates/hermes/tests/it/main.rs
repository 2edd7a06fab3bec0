//! Tests of the program as a whole.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod architecture;
mod asking;
mod attacks;
mod beginning;
mod chat;
mod cron;
mod documents;
mod edit;
mod equipment;
mod gateway;
mod generated_secrets;
mod hub;
mod interactive;
mod model;
mod oauth;
mod observe;
mod program;
mod pty;
mod requests;
mod running;
mod sandbox;
mod screen;
mod secret;
mod send;
mod serve;
mod sessions;
mod skills;
mod steering;
mod talk;
#[cfg(target_os = "linux")]
mod tenants;
mod terminal;
mod up;
