//! `hermes logs`, and where log lines go.

use std::{fs, io::Write, process::Stdio};

use serde_json::json;

use super::working_server;
use crate::harness::{
    program::{entry, run},
    test_home::{TestHome, wait_until},
};

fn home_with_log(lines: usize) -> TestHome {
    let home = TestHome::with_servers(&[]);
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let text: Vec<String> = (1..=lines).map(|line| format!("line {line}\n")).collect();
    fs::write(logs.join("mcp-stderr.log"), text.concat()).unwrap();
    home
}

#[test]
fn no_secret_of_the_home_is_shown() {
    let home = TestHome::with_servers(&[]);
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    fs::write(
        home.path().join(".env"),
        "DOOR_KEY=open-sesame-now\nDEBUG=true\n",
    )
    .unwrap();
    fs::write(
        logs.join("mcp-stderr.log"),
        "true: said open-sesame-now and Bearer abcdef123456\n",
    )
    .unwrap();
    let shown = home.run(&["logs"]).stdout;
    assert_eq!(shown, "true: said [REDACTED] and [REDACTED]\n");
}

#[test]
fn the_last_lines_are_shown() {
    let home = home_with_log(200);
    let shown = home.run(&["logs"]).stdout;
    assert_eq!(shown.lines().count(), 100);
    assert!(shown.ends_with("line 200\n"));
    assert_eq!(
        home.run(&["logs", "mcp", "-n", "2"]).stdout,
        "line 199\nline 200\n"
    );
    let json = home.run(&["logs", "-n", "1", "--json"]).json();
    assert_eq!(json["lines"], json!(["line 200"]));
}

#[test]
fn a_log_that_is_not_there_yet_is_not_an_error() {
    let done = TestHome::with_servers(&[]).run(&["logs", "hermes"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, ""), "{done:?}");
    assert!(done.stderr.contains("nothing is logged yet"), "{done:?}");
}

#[test]
fn what_a_server_prints_is_there() {
    let noisy = working_server().process(|process| process.stderr_flood = 300);
    let home = TestHome::with_servers(&[("one", entry(&noisy))]);
    assert_eq!(home.run(&["mcp", "test", "one"]).code, 0);
    assert!(home.run(&["logs", "mcp"]).stdout.contains("[one]"));
}

#[test]
fn following_shows_new_lines() {
    let home = home_with_log(1);
    let mut follow = home.start(&["logs", "--follow"]);
    follow.wait_for("line 1");
    let path = home.path().join("logs/mcp-stderr.log");
    let mut log = fs::OpenOptions::new().append(true).open(path).unwrap();
    writeln!(log, "line 2").unwrap();
    follow.wait_for("line 2");
}

#[test]
fn following_ends_with_its_reader() {
    let home = home_with_log(1);
    let mut child = home
        .command(&["logs", "--follow"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let path = home.path().join("logs/mcp-stderr.log");
    let mut log = fs::OpenOptions::new().append(true).open(path).unwrap();
    wait_until("it ends", || {
        writeln!(log, "more").unwrap();
        child.try_wait().unwrap().is_some()
    });
}

#[test]
fn short_commands_log_only_if_asked() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let quiet = home.run(&["mcp", "test", "one"]);
    assert_eq!(quiet.stderr, "");
    assert!(!home.path().join("logs/hermes.log").exists());

    let mut command = home.command(&["mcp", "test", "one"]);
    command.env("HERMES_LOG", "info");
    let asked = run(command, "");
    assert!(asked.stderr.contains("to=ready"), "{asked:?}");
    assert!(!asked.stdout.contains("to=ready"), "{asked:?}");

    let mut command = home.command(&["mcp", "list"]);
    command.env("HERMES_LOG", "hermes=loud");
    assert_eq!(run(command, "").code, 2);
}
