//! The process guard as a program of its own, for those who use this crate as a library.

use std::process::ExitCode;

#[cfg(unix)]
fn main() -> ExitCode {
    hermes_mcp::process::guard::run()
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    ExitCode::FAILURE
}
