//! The Hub from outside.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod files;
mod sync;
