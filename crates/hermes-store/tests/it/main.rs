//! The public interface on real files, with real processes, and against databases made by Python.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::print_stdout,
    reason = "child processes report to the test that started them"
)]

mod cron;
mod db;
mod messages;
mod mirror;
mod processes;
mod python;
mod real_servers;
mod runtime;
mod scale;
mod search;
mod sessions;

use std::{fs, path::PathBuf, process::Command};

use hermes_config::Home;
use hermes_store::{Access, NewMessage, NewSession, Role, SessionId, Store};
use tempfile::TempDir;

/// An empty home in a temporary directory.
fn empty_home() -> (TempDir, Home) {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    (directory, home)
}

/// A home with an open store.
async fn open_store() -> (TempDir, Home, Store) {
    let (directory, home) = empty_home();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    (directory, home, store)
}

/// A store with one session in it.
async fn with_session() -> (TempDir, Home, Store, SessionId) {
    let (directory, home, store) = open_store().await;
    let id = id("20260101_010101_abcdef");
    store
        .create_session(&NewSession::new(id.clone(), "cli"))
        .await
        .unwrap();
    (directory, home, store, id)
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

fn user(text: &str) -> NewMessage {
    NewMessage::new(Role::User, text)
}

fn assistant(text: &str) -> NewMessage {
    NewMessage::new(Role::Assistant, text)
}

fn database(home: &Home) -> PathBuf {
    home.path().join("state.db")
}

/// Takes the index that only we make out of what `reference.py describe` says. Tells whether it was there.
fn remove_own_index(described: &mut serde_json::Value) -> bool {
    let indexes = described["indexes"].as_object_mut().unwrap();
    indexes.remove("idx_sessions_chat_marks").is_some()
}

/// What Python's own SQLite prints for these statements, one value per line.
fn python_sql(home: &Home, statements: &str) -> String {
    let script = "import sqlite3, sys\n\
        connection = sqlite3.connect(sys.argv[1])\n\
        for statement in sys.argv[2].split(';'):\n\
        \x20   for row in connection.execute(statement): print(*row)\n\
        connection.commit()\n";
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(database(home))
        .arg(statements)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A file under `tests/it` that is not declared above would silently not run.
#[test]
fn every_test_file_is_part_of_this_binary() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    let main = fs::read_to_string(format!("{directory}/main.rs")).unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(module) = name.strip_suffix(".rs") {
            assert!(
                module == "main" || main.contains(&format!("mod {module};")),
                "{name}"
            );
        }
    }
}
