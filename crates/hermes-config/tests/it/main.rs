//! The public interface with real files, processes and environments.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::print_stdout,
    reason = "child processes report to the test that started them"
)]

mod documented;
mod environment;
mod examples;
mod file;

use std::fs;

use hermes_config::Home;
use tempfile::TempDir;

/// A home in a temporary directory, with these files in it.
fn home(files: &[(&str, &str)]) -> (TempDir, Home) {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(directory.path().join(name), content).unwrap();
    }
    let home = Home::at(directory.path());
    (directory, home)
}

/// A file under `tests/it` that is not declared above would silently not run.
#[test]
fn every_test_file_is_part_of_this_binary() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    let main = fs::read_to_string(format!("{directory}/main.rs")).unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(
            module == "main" || main.contains(&format!("mod {module};")),
            "{name}"
        );
    }
}
