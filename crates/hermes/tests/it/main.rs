//! Tests of the program as a whole.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod edit;
mod program;
mod terminal;
