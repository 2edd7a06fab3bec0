//! The Hub from outside.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod adversary;
mod agents;
mod asking;
mod backup;
mod client;
mod clock;
mod files;
mod fuzz;
mod runs;
mod shapes;
mod site;
mod state;
mod surface;
mod sync;
mod world;
