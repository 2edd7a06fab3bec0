//! `mcp call` and its like where `hermes up` has the server.

use std::path::{Path, PathBuf};

use hermes_testkit::{Behaviour, Era, recorded};
use serde_json::json;

use crate::harness::{
    program::entry,
    terminal::Terminal,
    test_home::{BackgroundProcess, TIMEOUT, TestHome},
};

/// Waits until something can be seen.
fn eventually(condition: impl Fn() -> bool) -> bool {
    hermes_testkit::wait_until(TIMEOUT, condition)
}

/// How often the server was started: each session opens with one of these.
fn starts(record: &Path) -> usize {
    recorded(record, "initialize").len()
}

/// A home whose server takes a while to start, and `hermes up` that has it.
fn slow_server() -> (TestHome, BackgroundProcess, PathBuf) {
    let home = TestHome::fresh();
    std::fs::create_dir(home.path()).unwrap();
    let record = home.beside("record.jsonl");
    let behaviour = Behaviour::new()
        .era(Era::Legacy)
        .record(&record)
        .process(|process| process.start_delay_ms = 400);
    home.write_servers(&[("kit", entry(&behaviour))]);
    let up = home.up(&["kit: ready"]);
    (home, up, record)
}

#[test]
fn the_running_process_makes_the_call_and_fresh_starts_a_server() {
    let (home, _up, record) = slow_server();
    assert_eq!(starts(&record), 1);
    for arguments in [
        &["mcp", "call", "kit.add", "a=2", "b:=40"][..],
        &["mcp", "call", "kit", "add", r#"{"a": 2, "b": 40}"#],
        &["mcp", "call", "mcp_kit_add", "a=2", "b=40"],
        &["mcp", "call", "mcp__kit__add", "a=2", "b=40"],
        &["-q", "/call kit.add a=2 b=40"],
        &["-q", "/call mcp_kit_add {\"a\": 2, \"b\": 40}"],
    ] {
        let ran = home.run(arguments).ok();
        assert_eq!(ran.stdout, "{\"sum\":42}\n", "{arguments:?}");
    }
    let json = home
        .run(&["mcp", "call", "kit.add", "a=2", "b=40", "--json"])
        .ok();
    assert_eq!(json.json(), json!({"ok": true, "result": "{\"sum\":42}"}));
    let failed = home
        .run(&["mcp", "call", "kit.fail", "text=no", "--json"])
        .exits_with(1);
    assert_eq!(failed.json(), json!({"ok": false, "error": "no"}));
    let list = home.run(&["mcp", "resources", "kit", "--json"]).ok().json();
    assert!(list["resources"][0]["uri"].is_string(), "{list}");
    assert_eq!(starts(&record), 1);

    home.run(&["mcp", "call", "--fresh", "kit.add", "a=2", "b=40"])
        .ok();
    assert_eq!(starts(&record), 2);
    assert_eq!(recorded(&record, "tools/call").len(), 9);
}

#[test]
fn the_running_process_knows_the_tools_and_fresh_asks_the_server() {
    let (home, _up, record) = slow_server();
    let list = || home.run(&["mcp", "tools", "kit", "--json"]).ok();
    // They are pinned a moment after the server is ready.
    assert!(eventually(|| !list().stdout.contains(r#""pin":"new""#)));
    let listed = list().json();
    assert_eq!(home.run(&["mcp", "tools", "--json"]).ok().json(), listed);
    let one = home.run(&["mcp", "tools", "kit.add"]).ok();
    assert!(one.stdout.contains("mcp_kit_add"), "{one:?}");
    let told = home.run(&["mcp", "tools", "kit"]).ok();
    assert_eq!(starts(&record), 1);

    let fresh = home.run(&["mcp", "tools", "kit", "--fresh", "--json"]).ok();
    assert_eq!(starts(&record), 2);
    assert_eq!(fresh.json(), listed);
    let fresh = home.run(&["mcp", "tools", "kit", "--fresh"]).ok();
    assert_eq!((fresh.stdout, fresh.stderr), (told.stdout, told.stderr));
}

#[test]
fn ctrl_c_takes_the_call_back_at_the_server() {
    let (home, _up, record) = slow_server();
    let mut call = home.start(&["mcp", "call", "kit.sleep", "ms=600000"]);
    let begun = || !recorded(&record, "tools/call").is_empty();
    assert!(eventually(begun));
    call.signal(rustix::process::Signal::INT);
    assert_eq!(call.wait(), Some(130));
    let told = || !recorded(&record, "notifications/cancelled").is_empty();
    assert!(eventually(told));
    let counted = || {
        let status = home.run(&["mcp", "status", "--json"]).ok();
        status.server("kit")["calls"]["cancelled"] == 1
    };
    assert!(eventually(counted));
}

#[test]
fn a_server_that_asks_reaches_the_person_who_called_and_progress_is_shown() {
    let (home, _up, record) = slow_server();
    let mut command = home.command(&["mcp", "call", "kit.elicit"]);
    command.env("NO_COLOR", "1");
    let mut terminal = Terminal::start(command);
    terminal
        .wait_for("What is your name?")
        .wait_for("name: ")
        .send("Ada\n")
        .wait_for("Send this to `kit`?")
        .send("y\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains(r#""name":"Ada""#), "{screen}");

    let steps = home.command(&["mcp", "call", "kit.progress", "steps=3", "interval_ms=100"]);
    let mut terminal = Terminal::start(steps);
    terminal.wait_for("1/3 step 1").wait_for("3 steps");
    assert_eq!(starts(&record), 1);
}

#[test]
fn filters_and_pins_of_the_running_process_hold() {
    let home = TestHome::fresh();
    std::fs::create_dir(home.path()).unwrap();
    let mut kit = entry(&Behaviour::new());
    kit["tools"] = json!({"exclude": ["add"]});
    home.write_servers(&[("kit", kit)]);
    let _up = home.up(&["kit: ready"]);
    let refused = home.run(&["mcp", "call", "kit.add", "a=1", "b=2", "--json"]);
    refused.refused(3, "not_found");
}

#[test]
fn a_process_that_ended_is_not_a_hindrance() {
    let (home, mut up, record) = slow_server();
    up.kill();
    let ran = home.run(&["mcp", "call", "kit.add", "a=2", "b=40"]).ok();
    assert_eq!(ran.stdout, "{\"sum\":42}\n");
    assert_eq!(starts(&record), 2);
}

#[test]
fn what_needs_approval_is_asked_about_before_the_running_process_calls_it() {
    let home = TestHome::fresh();
    std::fs::create_dir(home.path()).unwrap();
    let record = home.beside("record.jsonl");
    let behaviour = Behaviour::new().era(Era::Legacy).record(&record);
    let mut kit = entry(&behaviour);
    kit["tools"] = json!({"approve": ["add"]});
    home.write_servers(&[("kit", kit.clone())]);
    let _up = home.up(&["kit: ready"]);
    let calls = || recorded(&record, "tools/call").len();

    // Nobody can be asked.
    for name in ["kit.add", "mcp_kit_add", "mcp__kit__add"] {
        let call = format!("/call {name} a=2 b=40");
        let ran = home.run(&["-q", &call]).exits_with(1);
        assert!(ran.stderr.contains("not approved"), "{ran:?}");
    }
    home.run(&["-q", "/call kit.echo text=hi"]).ok();
    assert_eq!(calls(), 1);

    let answered = |answer: &str| {
        let mut terminal = Terminal::start(home.command(&["-q", "/call kit.add a=2 b=40"]));
        terminal.wait_for("kit.add").wait_for("[o]nce").send(answer);
        terminal.end()
    };
    let (code, screen) = answered("d\n");
    assert_eq!(code, 1, "{screen}");
    assert_eq!(calls(), 1);
    let (code, screen) = answered("o\n");
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains(r#"{"sum":42}"#), "{screen}");
    assert_eq!(calls(), 2);
    // A command of one's own is consent.
    home.run(&["mcp", "call", "kit.add", "a=2", "b=40"]).ok();
    home.run(&["--yolo", "-q", "/call kit.add a=2 b=40"]).ok();
    let (code, screen) = answered("a\n");
    assert_eq!(code, 0, "{screen}");
    let ran = home.run(&["-q", "/call kit.add a=2 b=40"]).ok();
    assert_eq!(ran.stdout, "{\"sum\":42}\n");
    assert_eq!((calls(), starts(&record)), (6, 1));
}

#[test]
fn an_unknown_server_is_told_with_the_nearest_one() {
    let (home, _up, record) = slow_server();
    let ran = home.run(&["mcp", "call", "kut.add", "a=2", "b=40"]);
    let ran = ran.exits_with(3);
    assert!(ran.stderr.contains("did you mean"), "{ran:?}");
    home.run(&["mcp", "call", "kut", "add", "--json"])
        .refused(3, "not_found");
    assert_eq!(starts(&record), 1);
}

#[test]
fn a_disabled_server_is_not_started_for_a_call() {
    let home = TestHome::fresh();
    std::fs::create_dir(home.path()).unwrap();
    let record = home.beside("record.jsonl");
    let behaviour = Behaviour::new().era(Era::Legacy).record(&record);
    let mut off = entry(&behaviour);
    off["enabled"] = json!(false);
    let other = entry(&Behaviour::new());
    home.write_servers(&[("off", off), ("kit", other)]);
    let _up = home.up(&["kit: ready"]);
    let ran = home.run(&["mcp", "call", "off.add", "a=2", "b=40"]);
    let ran = ran.exits_with(2);
    assert!(ran.stderr.contains("disabled"), "{ran:?}");
    assert!(ran.stderr.contains("hermes mcp enable off"), "{ran:?}");
    assert_eq!(starts(&record), 0);
}

#[test]
fn a_process_that_ends_in_the_middle_of_a_call_is_told_and_the_call_is_not_made_again() {
    let (home, mut up, record) = slow_server();
    let mut call = home.start(&["mcp", "call", "kit.sleep", "ms=600000"]);
    let made = || recorded(&record, "tools/call").len();
    assert!(eventually(|| made() == 1));
    up.kill();
    call.wait_for("ended before the answer came");
    assert_eq!(call.wait(), Some(1));
    assert_eq!((made(), starts(&record)), (1, 1));
}

#[test]
fn an_error_of_the_tool_is_the_commands_failure_with_the_tools_words() {
    let (home, _up, record) = slow_server();
    let ran = home.run(&["mcp", "call", "kit.fail", "text=no such row"]);
    let ran = ran.exits_with(1);
    assert!(ran.stderr.contains("no such row"), "{ran:?}");
    assert_eq!(ran.stdout, "");
    let ran = home.run(&["mcp", "call", "--raw", "kit.fail", "text=no such row"]);
    let ran = ran.exits_with(1);
    assert_eq!(ran.json()["isError"], true, "{ran:?}");
    let ran = home.run(&["-q", "/call kit.fail text='no such row'"]);
    let ran = ran.exits_with(1);
    assert!(ran.stderr.contains("no such row"), "{ran:?}");
    assert_eq!(starts(&record), 1);
}
