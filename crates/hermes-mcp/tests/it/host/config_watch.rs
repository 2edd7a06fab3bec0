//! Noticing that the configuration was edited.

use std::{path::Path, time::Duration};

use hermes_config::Home;
use hermes_mcp::ConfigWatch;
use hermes_testkit::TemporaryHome;
use tokio::time::timeout;

use crate::test_host::TIMEOUT;

/// Longer than a change is waited out for.
const QUIET: Duration = Duration::from_millis(1500);

async fn fires(watch: &mut ConfigWatch) -> bool {
    timeout(TIMEOUT, watch.wait_for_change()).await.is_ok()
}

async fn stays_quiet(watch: &mut ConfigWatch) -> bool {
    timeout(QUIET, watch.wait_for_change()).await.is_err()
}

/// Replaces a file as careful editors do.
fn replace(home: &TemporaryHome, name: &str, text: &str) {
    let new = home.write(&format!("{name}.new"), text);
    std::fs::rename(new, home.path().join(name)).unwrap();
}

fn append(path: &Path, text: &str) {
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
}

#[tokio::test]
async fn an_atomic_replacement_is_noticed_once() {
    let home = TemporaryHome::with_config("mcp_servers: {}\n");
    let mut watch = ConfigWatch::new(&Home::at(home.path()));
    replace(&home, "config.yaml", "mcp_servers: {} # new\n");
    assert!(fires(&mut watch).await);
    assert!(stays_quiet(&mut watch).await);
    replace(&home, "config.yaml", "mcp_servers: {} # newer\n");
    assert!(fires(&mut watch).await);
}

#[tokio::test]
async fn writes_in_a_row_are_one_change() {
    let home = TemporaryHome::with_config("a: 1\n");
    let mut watch = ConfigWatch::new(&Home::at(home.path()));
    let path = home.path().join("config.yaml");
    for line in ["b: 2\n", "c: 3\n", "d: 4\n"] {
        append(&path, line);
    }
    home.write_config("e: 5\n");
    assert!(fires(&mut watch).await);
    assert!(stays_quiet(&mut watch).await);
}

#[tokio::test]
async fn variables_belong_to_the_configuration() {
    let home = TemporaryHome::with_config("a: 1\n");
    let mut watch = ConfigWatch::new(&Home::at(home.path()));
    home.write_env("KEY=1\n");
    assert!(fires(&mut watch).await, "a new file");
    home.write_env("KEY=22\n");
    assert!(fires(&mut watch).await, "a changed one");
    std::fs::remove_file(home.path().join(".env")).unwrap();
    assert!(fires(&mut watch).await, "a removed one");
}

#[tokio::test]
async fn other_files_and_mere_reading_are_not_a_change() {
    let home = TemporaryHome::with_config("a: 1\n");
    let mut watch = ConfigWatch::new(&Home::at(home.path()));
    home.write("notes.txt", "x");
    home.write("config.yaml.bak", "x");
    home.write("logs/config.yaml", "x");
    std::fs::read_to_string(home.path().join("config.yaml")).unwrap();
    assert!(stays_quiet(&mut watch).await);
    home.write_config("b: 2\n");
    assert!(fires(&mut watch).await, "and a real one is not lost");
}

#[tokio::test]
async fn a_home_that_does_not_exist_yet_is_looked_at_now_and_then() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("home");
    let mut watch = ConfigWatch::new(&Home::at(&path));
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("config.yaml"), "a: 1\n").unwrap();
    assert!(fires(&mut watch).await);
}

#[tokio::test]
async fn a_wait_that_is_given_up_loses_no_change() {
    let home = TemporaryHome::with_config("a: 1\n");
    let mut watch = ConfigWatch::new(&Home::at(home.path()));
    home.write_config("b: 2\n# longer\n");
    // Long enough to hear of it, too short for it to settle.
    let has_fired = timeout(Duration::from_millis(100), watch.wait_for_change()).await;
    assert!(has_fired.is_ok() || fires(&mut watch).await);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_home_that_comes_back_is_looked_at_now_and_then() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("home");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("config.yaml"), "a: 1\n").unwrap();
    let mut watch = ConfigWatch::new(&Home::at(&path));
    std::fs::remove_dir_all(&path).unwrap();
    assert!(fires(&mut watch).await, "it is gone");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("config.yaml"), "b: 2\n").unwrap();
    assert!(fires(&mut watch).await, "it is there again");
}
