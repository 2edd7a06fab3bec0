//! `hermes up`, with real servers and on a real terminal.

use std::{fs, time::Duration};

use hermes_testkit::{Behaviour, Grandchild};
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{
    program::entry,
    screen_terminal::ScreenTerminal,
    test_home::{
        TIMEOUT, TestHome, assert_gone, is_running, mode, read_pids, signal_process, wait_until,
    },
};

const CTRL_C: &[u8] = b"\x03";

fn working_server() -> Behaviour {
    Behaviour::new()
}

fn broken_server() -> Behaviour {
    working_server().process(|process| {
        process.exit_at_start = Some(hermes_testkit::ExitAtStart {
            code: 3,
            stderr: "no licence\n".to_owned(),
        });
    })
}

/// What is on a screen below the messages.
fn table(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .skip_while(|line| !line.starts_with("hermes up:"))
}

#[test]
fn a_fresh_home_gets_a_configuration_and_the_built_in_server() {
    let home = TestHome::fresh();
    let done = home.run(&["up", "--once"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("demo: ready, 9 tools"), "{done:?}");
    assert!(done.stderr.contains("Wrote `"), "{done:?}");
    assert!(done.stderr.contains("built-in"), "{done:?}");
    assert!(!done.stderr.to_lowercase().contains("next"), "{done:?}");
    assert_eq!(mode(&home.config()), 0o600);
    assert_eq!(mode(&home.path()), 0o700);
    let text = fs::read_to_string(home.config()).unwrap();
    assert!(
        text.contains("# filesystem:") && !text.contains("demo"),
        "{text}"
    );

    let again = home.run(&["up", "--once"]);
    assert!(!again.stderr.contains("Wrote"), "{again:?}");
}

#[test]
fn once_prints_the_servers_as_json() {
    let home = TestHome::with_servers(&[
        ("one", entry(&working_server())),
        ("off", json!({"command": "nothing", "enabled": false})),
    ]);
    let done = home.run(&["up", "--once", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["ok"], true);
    assert_eq!(done.server("one")["status"], "ready");
    assert_eq!(done.server("off")["status"], "disabled");
}

#[test]
fn once_fails_if_a_server_does() {
    let home = TestHome::with_servers(&[
        ("one", entry(&working_server())),
        ("two", entry(&broken_server())),
        ("three", json!({"command": "a", "url": "http://b"})),
    ]);
    let done = home.run(&["up", "--once", "--json"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(done.json()["ok"], false);
    assert_eq!(done.server("one")["status"], "ready");
    assert_eq!(done.server("two")["status"], "reconnecting");
    assert_eq!(done.server("three")["status"], "invalid");
    let told = home.run(&["up", "--once"]);
    assert!(
        told.stderr.contains("2 of 3 servers failed: two, three"),
        "{told:?}"
    );
    assert!(told.stdout.contains("two: reconnecting"), "{told:?}");
}

#[test]
fn json_without_an_end_is_wrong_usage() {
    let done = TestHome::fresh().run(&["up", "--json"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert_eq!(done.json()["error"]["code"], "usage");
}

#[test]
fn a_broken_configuration_is_wrong_usage_at_the_start() {
    let home = TestHome::with_servers(&[]);
    home.write_config("mcp_servers: [");
    let done = home.run(&["up", "--once"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.stderr.contains("line 1"), "{done:?}");
}

#[test]
fn safe_mode_starts_nothing() {
    let home = TestHome::fresh();
    let done = home.run(&["--safe-mode", "up", "--once", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["servers"], json!([]));
}

#[test]
fn without_a_terminal_each_change_is_a_line_and_sigterm_ends_it() {
    let home = TestHome::with_servers(&[
        ("one", entry(&working_server())),
        ("two", entry(&broken_server())),
    ]);
    let mut up = home.up(&["one: ready"]);
    let line = match up.seen.iter().find(|line| line.starts_with("two: re")) {
        Some(line) => line.clone(),
        None => up.wait_for("two: reconnecting"),
    };
    assert!(line.contains("exit code 3"), "{line}");
    assert!(!up.seen.iter().any(|line| line.contains('\x1b')));
    up.signal(Signal::TERM);
    up.wait_for("Stopping 2 servers");
    up.wait_for("Stopped.");
    assert_eq!(up.wait(), Some(0));
}

#[test]
fn state_changes_are_logged_for_the_owner_alone() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    assert_eq!(home.run(&["up", "--once"]).code, 0);
    let log = home.path().join("logs/hermes.log");
    assert_eq!(mode(&log), 0o600);
    let text = fs::read_to_string(log).unwrap();
    assert!(
        text.contains("server=one from=connecting to=ready"),
        "{text}"
    );
    assert!(text.contains("server=one from=ready to=stopped"), "{text}");
}

#[test]
fn edits_of_the_configuration_are_applied_and_told() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let mut up = home.up(&["one: ready"]);
    let pid = home.run(&["mcp", "status", "--json"]).server("one")["pid"].clone();

    home.write_servers(&[
        ("one", entry(&working_server())),
        ("two", entry(&working_server())),
    ]);
    up.wait_for_each(&["Reloaded: added two; 1 unchanged.", "two: ready"]);
    assert_eq!(
        home.run(&["mcp", "status", "--json"]).server("one")["pid"],
        pid,
        "an unchanged server keeps its process"
    );

    home.write_config("mcp_servers: [");
    up.wait_for("keeping the previous one");
    assert_eq!(up.lines_within(Duration::from_secs(1)), [""; 0]);
    assert_eq!(
        home.run(&["mcp", "status", "--json"]).server("two")["status"],
        "ready"
    );

    home.write_servers(&[("two", entry(&working_server()))]);
    up.wait_for("Reloaded: removed one; 1 unchanged.");
}

#[test]
fn an_edit_while_everything_starts_is_not_missed() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let mut up = home.start(&["up"]);
    up.wait_for("Hub: ");
    home.write_servers(&[
        ("one", entry(&working_server())),
        ("two", entry(&working_server())),
    ]);
    up.wait_for_each(&["Reloaded: added two; 1 unchanged.", "two: ready"]);
}

#[test]
fn with_automatic_reload_off_an_edit_is_only_told() {
    let home = TestHome::with_servers(&[]);
    let config = |servers: serde_json::Value| {
        json!({"mcp": {"auto_reload_on_config_change": false}, "mcp_servers": servers}).to_string()
    };
    home.write_config(&config(json!({"one": entry(&working_server())})));
    let mut up = home.up(&["one: ready"]);
    home.write_config(&config(json!({"two": entry(&working_server())})));
    up.wait_for("`hermes mcp reload` applies it");
    assert_eq!(up.lines_within(Duration::from_millis(500)), [""; 0]);
    assert_eq!(home.run(&["mcp", "reload"]).code, 0);
    up.wait_for("two: ready");
}

#[test]
fn the_built_in_server_makes_room_and_comes_back() {
    let home = TestHome::fresh();
    let mut up = home.up(&["demo: ready"]);
    home.write_servers(&[("one", entry(&working_server()))]);
    up.wait_for("Reloaded: added one; removed demo.");
    home.write_servers(&[]);
    up.wait_for_each(&["Reloaded: added demo; removed one.", "demo: ready"]);

    // A reload from outside knows nothing of it, and yet it stays.
    assert_eq!(home.run(&["mcp", "reload"]).code, 0);
    wait_until("the built-in server runs again", || {
        let status = home.run(&["mcp", "status", "--json"]).json();
        status["servers"][0]["status"] == "ready"
    });
}

#[test]
fn on_a_terminal_there_is_one_table_and_ctrl_c_ends_everything() {
    let home = TestHome::with_servers(&[]);
    let pids = home.beside("pids");
    let server = working_server().process(|process| {
        process.pid_file = Some(pids.clone());
        process.grandchildren = vec![Grandchild::Attached, Grandchild::Detached];
    });
    home.write_servers(&[("one", entry(&server)), ("two", entry(&broken_server()))]);
    let mut up = ScreenTerminal::start(home.command(&["up"]), 100, 24);
    let text = up.wait_for("both states", |text| {
        text.contains("1 ready, 1 reconnecting") && text.contains("next attempt in")
    });
    let lines: Vec<&str> = table(&text).collect();
    assert!(lines[0].contains("Ctrl-C stops everything"), "{text}");
    assert!(lines[1].starts_with("NAME  TRANSPORT  STATUS"), "{text}");
    assert!(lines[2].starts_with("one   stdio      ready"), "{text}");
    assert!(lines[2].contains("echo"), "{text}");
    assert!(lines[3].contains("next attempt in"), "{text}");
    assert_eq!(lines.len(), 5, "{text}");
    // Counting down draws over the old picture.
    let later = up.wait_for("the countdown", |text| table(text).nth(3) != Some(lines[3]));
    assert_eq!(later.matches("NAME").count(), 1, "{later}");
    assert!(up.cursor_is_visible());
    let pids = read_pids(&pids);
    assert_eq!(pids.len(), 3);

    up.press(CTRL_C);
    assert_eq!(up.wait(), Some(0));
    let text = up.text();
    assert!(text.contains("Stopped."), "{text}");
    assert_eq!(text.matches("NAME").count(), 1, "{text}");
    assert!(up.cursor_is_visible());
    assert_gone(&pids, TIMEOUT);
}

#[test]
fn messages_stay_above_the_table() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let up = ScreenTerminal::start(home.command(&["up"]), 80, 24);
    up.wait_for("readiness", |text| text.contains("1 ready"));
    home.write_servers(&[
        ("one", entry(&working_server())),
        ("two", entry(&working_server())),
    ]);
    let text = up.wait_for("the second server", |text| {
        text.contains("2 ready") && text.contains("Reloaded")
    });
    assert!(
        text.contains("\nReloaded: added two; 1 unchanged.\nhermes up:"),
        "{text}"
    );
    assert_eq!(text.matches("NAME").count(), 1, "{text}");
}

#[test]
fn a_terminal_that_becomes_narrower_shows_the_table_once() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let mut up = ScreenTerminal::start(home.command(&["up"]), 100, 24);
    up.wait_for("readiness", |text| text.contains("1 ready"));
    up.resize(40, 24);
    let text = up.wait_for("the narrow table", |text| {
        text.contains("NAME  STATUS  TOOLS  NOTE")
    });
    assert!(table(&text).all(|line| line.chars().count() < 40), "{text}");
    assert_eq!(table(&text).count(), 4, "{text}");
}

#[test]
fn a_second_ctrl_c_does_not_wait_for_a_server_that_will_not_go() {
    let home = TestHome::with_servers(&[]);
    let pids = home.beside("pids");
    let stubborn = working_server().process(|process| {
        process.pid_file = Some(pids.clone());
        process.ignore_stdin_close = true;
        process.ignore_sigterm = true;
    });
    home.write_servers(&[("one", entry(&stubborn))]);
    let mut up = ScreenTerminal::start(home.command(&["up"]), 80, 24);
    up.wait_for("readiness", |text| text.contains("1 ready"));
    up.press(CTRL_C);
    up.wait_for("the message", |text| text.contains("Stopping 1 server"));
    up.press(CTRL_C);
    assert_eq!(up.wait(), Some(130));
    assert!(up.cursor_is_visible());
    assert_gone(&read_pids(&pids), TIMEOUT);
}

#[test]
fn kill_9_leaves_no_process_behind() {
    let home = TestHome::with_servers(&[]);
    let pids = home.beside("pids");
    let server = working_server().process(|process| {
        process.pid_file = Some(pids.clone());
        process.ignore_stdin_close = true;
        process.grandchildren = vec![Grandchild::Attached, Grandchild::Detached];
    });
    home.write_servers(&[("one", entry(&server))]);
    let up = ScreenTerminal::start(home.command(&["up"]), 80, 24);
    up.wait_for("readiness", |text| text.contains("1 ready"));
    let pids = read_pids(&pids);
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| is_running(*pid)));
    signal_process(up.pid(), Signal::KILL);
    assert_gone(&pids, TIMEOUT);
    assert!(up.cursor_is_visible());
}
