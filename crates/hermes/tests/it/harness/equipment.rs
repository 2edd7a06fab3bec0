//! Programs that others wrote, which `scripts/equipment` installs.

use std::path::PathBuf;

/// A program in the place that a variable names, or without one that place itself; `None` when these tests are to be
/// skipped.
///
/// # Panics
///
/// If the variable is missing: a test that silently does nothing is worse than one that fails.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
pub(crate) fn installed(variable: &str, program: &str) -> Option<PathBuf> {
    if std::env::var_os("HERMES_TEST_SKIP_REAL").is_some_and(|value| value == "1") {
        println!("SKIPPED: HERMES_TEST_SKIP_REAL is set, so nothing is tested with {program}");
        return None;
    }
    let Some(place) = std::env::var_os(variable) else {
        panic!(
            "{variable} is not set: `./test` installs what is needed and sets it; for a single test run \
             `scripts/equipment install` and `eval \"$(scripts/equipment env)\"`, or set HERMES_TEST_SKIP_REAL=1"
        );
    };
    let mut path = PathBuf::from(place);
    if !program.is_empty() {
        path.push(program);
    }
    assert!(path.exists(), "{} is missing", path.display());
    Some(path)
}
