//! `hermes mcp test` of servers that take their time, or never come.

use hermes_testkit::{Behaviour, DiscoverBehaviour, Era, Grandchild, binary, process_exists};
use serde_json::{Value, json};

use crate::harness::program::{Hermes, entry};

fn with_server(entry: &Value) -> Hermes {
    Hermes::with_config(&json!({"mcp_servers": {"kit": entry}}).to_string())
}

#[test]
fn a_failed_handshake_leaves_nothing_behind_when_the_command_ends() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let hopeless = Behaviour::new()
        .era(Era::Legacy)
        .discover(DiscoverBehaviour::Deaf)
        .process(|process| {
            process.ignore_stdin_close = true;
            process.ignore_sigterm = true;
            process.grandchildren = vec![Grandchild::Attached, Grandchild::Detached];
            process.pid_file = Some(file.clone());
        });
    let hermes = with_server(&entry(&hopeless));
    let ran = hermes
        .run(&["mcp", "test", "kit", "--timeout", "2"])
        .exits_with(1);
    assert!(ran.stderr.contains("no answer within 2 s"), "{ran:?}");
    let pids = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        pids.lines().count(),
        6,
        "two processes with two children each"
    );
    for pid in pids.lines() {
        assert!(!process_exists(pid.parse().unwrap()), "{pid} is left");
    }
}

#[test]
fn a_package_runner_that_still_fetches_is_waited_for_and_that_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let runner = directory.path().join("npx");
    std::os::unix::fs::symlink(binary("testkit-stdio"), &runner).unwrap();
    let slow = Behaviour::new().process(|process| process.start_delay_ms = 4_000);
    let mut slow = entry(&slow);
    slow["command"] = json!(runner);
    slow["connect_timeout"] = json!(2);
    let hermes = with_server(&slow);
    // Whoever gives a limit means it.
    let ran = hermes
        .run(&["mcp", "test", "kit", "--timeout", "2"])
        .exits_with(1);
    assert!(ran.stderr.contains("no answer within 2 s"), "{ran:?}");
    let ran = hermes.run(&["mcp", "test", "kit"]).ok();
    assert!(ran.stdout.contains("ready kit"), "{ran:?}");
    let told = "kit: waiting for `npx` to fetch it and start it";
    assert_eq!(ran.stderr.matches(told).count(), 1, "{ran:?}");
}
