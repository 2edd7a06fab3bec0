//! The servers as other programs see them: over pipes and over HTTP.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clients in tests fail the test"
)]

mod authorization;
mod discord;
mod http;
mod model;
mod pipe;
mod slack;
mod stdio;
mod telegram;

#[test]
fn every_file_here_is_a_module() {
    let main = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy();
        assert!(
            name == "main" || main.contains(&format!("mod {name};")),
            "{name}.rs is not part of the tests"
        );
    }
}
