//! Integration tests of the agent, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy takes only the test functions themselves for tests, not what they call"
)]

mod conversation;
mod elicitation;
mod file_tools;
mod fuzz;
mod home_tools;
mod mcp_host;
mod memory;
mod mention;
mod model;
#[cfg(unix)]
mod process;
mod prompt_command;
#[cfg(unix)]
mod published_approvals;
mod real_servers;
mod sampler;
mod search_files;
#[cfg(unix)]
mod terminal;
mod tool_deps;
mod tool_session;
mod turn;
mod web;

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
