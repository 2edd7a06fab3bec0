//! Integration tests of the MCP host, in one binary.

#[cfg(unix)]
mod process;
