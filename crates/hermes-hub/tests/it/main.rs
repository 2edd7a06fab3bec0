//! The Hub from outside.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod agents;
mod backup;
mod clock;
mod runs;
mod state;
mod world;
