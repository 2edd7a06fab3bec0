//! The Hub from outside.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]
#![allow(
    clippy::print_stdout,
    reason = "child processes report to the test that started them"
)]

mod backup;
mod client;
mod files;
mod shapes;
mod site;
mod state;
mod surface;
mod sync;
