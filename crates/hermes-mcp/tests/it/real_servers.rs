//! Servers that others wrote, pinned to a version: a second opinion on the protocol.

mod everything;
mod node;
mod package_fetch;
mod python;
mod restarts;
mod sandboxed;

use std::path::PathBuf;

use hermes_mcp::ToolOrigin;

use crate::setup::Setup;

/// Where an installed program is, or `None` when these tests are to be skipped.
///
/// # Panics
///
/// If the variable is missing: a test that silently does nothing is worse than one that fails.
fn installed(variable: &str, program: &str) -> Option<String> {
    let skips = std::env::var_os("HERMES_TEST_SKIP_REAL").is_some_and(|value| value == "1");
    if skips {
        println!("SKIPPED: HERMES_TEST_SKIP_REAL is set, so nothing is tested against {program}");
        return None;
    }
    let Some(place) = std::env::var_os(variable) else {
        panic!(
            "{variable} is not set: `./test` installs the servers and sets it; for a single test run \
             `scripts/equipment install` and `eval \"$(scripts/equipment env)\"`, or set HERMES_TEST_SKIP_REAL=1"
        );
    };
    let mut path = PathBuf::from(place);
    if !program.is_empty() {
        path.push(program);
    }
    assert!(path.exists(), "{} is missing", path.display());
    Some(path.to_str().unwrap().to_owned())
}

/// The names of a server's own tools, without those that Hermes adds.
fn own_tools(setup: &Setup) -> Vec<String> {
    let registry = setup.host.registry();
    let own = registry
        .tools()
        .filter(|tool| matches!(tool.origin, ToolOrigin::Native(_)));
    own.map(|tool| tool.original_name().to_owned()).collect()
}

/// The Node that runs the servers of npm.
fn node() -> Option<String> {
    installed("HERMES_TEST_NODE", "")
}
