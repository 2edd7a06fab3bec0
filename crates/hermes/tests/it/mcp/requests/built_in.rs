//! The built-in server by its name, in a home that has none configured.

use serde_json::json;

use crate::harness::{program::entry, test_home::TestHome};

/// What the commands that name a server make of it, and what they print.
const QUESTIONS: [(&[&str], &str); 7] = [
    (&["mcp", "call", "demo.add", "a=1", "b=2"], "{\"sum\":3}\n"),
    (
        &["mcp", "call", "mcp_demo_add", "a=1", "b=2"],
        "{\"sum\":3}\n",
    ),
    (&["mcp", "tools", "demo"], "mcp_demo_add"),
    (&["mcp", "tools", "demo.add"], "demo.add"),
    (&["mcp", "resources", "demo"], "://"),
    (&["mcp", "prompts", "demo"], "demo"),
    (&["mcp", "test", "demo"], "ready demo"),
];

#[test]
fn the_one_that_hermes_up_runs_can_be_named() {
    let home = TestHome::fresh();
    let _up = home.up(&["demo: ready"]);
    for (words, says) in QUESTIONS {
        let ran = home.run(words).ok();
        assert!(ran.stdout.contains(says), "{words:?}: {ran:?}");
        // To test a server is to start it.
        let starts_one = ran.stderr.contains("runs for this command");
        assert_eq!(starts_one, words[1] == "test", "{words:?}: {ran:?}");
    }
    home.run(&["mcp", "reload", "demo"]).ok();
}

#[test]
fn where_nothing_runs_it_is_started_for_the_command() {
    let home = TestHome::fresh();
    for (words, says) in QUESTIONS {
        let ran = home.run(words).ok();
        assert!(ran.stdout.contains(says), "{words:?}: {ran:?}");
        let note = "`demo` is built in and runs for this command.";
        assert!(ran.stderr.contains(note), "{words:?}: {ran:?}");
        assert!(!ran.stderr.contains("warning"), "{words:?}: {ran:?}");
    }
    assert!(!home.config().exists());
}

#[test]
fn it_has_no_entry_that_could_be_changed() {
    let home = TestHome::fresh();
    for words in [
        &["mcp", "remove", "demo", "--yes"][..],
        &["mcp", "disable", "demo"],
        &["mcp", "tools", "demo", "--include", "add"],
    ] {
        let ran = home.run(words).exits_with(3);
        assert!(ran.stderr.contains("is built in"), "{words:?}: {ran:?}");
    }
    let near = home.run(&["mcp", "call", "dmeo.add"]).exits_with(3);
    assert!(near.stderr.contains("did you mean `demo`?"), "{near:?}");
    let safe = home.run(&["--safe-mode", "mcp", "test", "demo"]);
    assert_eq!(safe.code, 3, "{safe:?}");
}

#[test]
fn beside_a_configured_server_there_is_none() {
    let home = TestHome::with_servers(&[("own", entry(&hermes_testkit::Behaviour::new()))]);
    let ran = home.run(&["mcp", "call", "demo.add", "a=1", "b=2", "--json"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let hint = ran.json()["error"]["hints"].clone();
    assert_eq!(hint, json!(["configured servers: own"]));
}
