//! Integration tests of the agent, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

#[cfg(unix)]
mod approval;
mod conversation;
mod fuzz;
mod mcp_host;
mod mention;
mod model;
mod prompt_command;
mod real_servers;
mod server_requests;
#[cfg(unix)]
mod speech;
mod tool_session;
mod tools;
mod turn;

#[test]
fn every_file_here_is_a_module() {
    let main = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy();
        assert!(
            name == "main" || main.contains(&format!("mod {name};")),
            "{name} is not part of the tests"
        );
    }
}
