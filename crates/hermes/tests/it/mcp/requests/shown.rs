//! What commands about several servers show, and how they count.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use crate::harness::{
    program::{Hermes, entry, with_tools},
    test_home::TestHome,
};

#[test]
fn all_servers_are_tested_at_once_and_told_in_order() {
    let mut servers = Map::new();
    let slow = with_tools(&["one"]).process(|process| process.start_delay_ms = 700);
    for index in 0..6 {
        servers.insert(format!("slow{index}"), entry(&slow));
    }
    // One that never answers holds nobody up.
    let mut silent =
        entry(&with_tools(&["one"]).process(|process| process.start_delay_ms = 600_000));
    silent["connect_timeout"] = json!(1.5);
    servers.insert("silent".into(), silent);
    servers.insert("quick".into(), entry(&with_tools(&["one"])));
    let hermes = Hermes::with_config(&json!({"mcp_servers": servers}).to_string());
    let began = Instant::now();
    let ran = hermes
        .run(&["mcp", "test", "--all", "--json"])
        .exits_with(1);
    let elapsed = began.elapsed();
    let json = ran.json();
    let results = json["results"].as_array().unwrap();
    let names: Vec<&str> = results
        .iter()
        .filter_map(|result| result["server"].as_str())
        .collect();
    let wanted = [
        "slow0", "slow1", "slow2", "slow3", "slow4", "slow5", "silent", "quick",
    ];
    assert_eq!(names, wanted);
    let failed: Vec<&Value> = results
        .iter()
        .filter(|result| result["ok"] == false)
        .collect();
    assert_eq!(failed.len(), 1, "{json}");
    // One after the other they would take longer than all their delays together.
    let told: u64 = results
        .iter()
        .filter_map(|result| result["elapsed_ms"].as_u64())
        .sum();
    assert!(
        elapsed < Duration::from_millis(told),
        "{elapsed:?} of {told} ms: {json}"
    );
}

#[test]
fn every_command_counts_tools_the_same_way() {
    let behaviour = with_tools(&["one", "two", "three"]);
    let said = "7 tools (3 of its own, 4 for its resources and prompts)";
    let (program, argument) = crate::harness::program::local(&behaviour);
    let hermes = Hermes::new();
    let added = hermes
        .run(&["mcp", "add", "kit", "--yes", "--", &program, &argument])
        .ok();
    assert!(added.stderr.contains(said), "{added:?}");
    let tested = hermes.run(&["mcp", "test", "kit"]).ok();
    assert!(tested.stdout.contains(said), "{tested:?}");
    let listed = hermes.run(&["mcp", "tools", "kit"]).ok();
    assert!(listed.stderr.contains(said), "{listed:?}");
    let status = hermes.run(&["mcp", "status", "--json"]).ok();
    assert_eq!(status.server("kit")["tools"], 7);
    let json = hermes.run(&["mcp", "test", "kit", "--json"]).ok().json();
    assert_eq!(json["tools"].as_array().unwrap().len(), 3);
    assert_eq!(json["utilities"].as_array().unwrap().len(), 4);
    let home = TestHome::with_servers(&[("kit", entry(&behaviour))]);
    home.up(&["kit: ready, 7 tools"]);
}

#[test]
fn a_broken_file_to_import_is_told_by_line_and_column() {
    let hermes = Hermes::new();
    let path = hermes.user().join("broken.json");
    fs::write(
        &path,
        "{\n  \"mcpServers\": {\n    \"a\": {\"command\" \"x\"}\n  }\n}\n",
    )
    .unwrap();
    let refused = hermes
        .run(&["mcp", "import", "--file", "broken.json"])
        .exits_with(2);
    assert!(refused.stderr.contains("broken.json:3:"), "{refused:?}");
    hermes
        .run(&["mcp", "import", "--file", "broken.json", "--json"])
        .refused(2, "usage");
}

#[test]
fn the_built_in_server_says_goodbye() {
    let home = TestHome::fresh();
    let mut up = home.up(&["demo: ready"]);
    let (program, argument) = crate::harness::program::local(&with_tools(&["one"]));
    home.run(&["mcp", "add", "own", "--yes", "--", &program, &argument])
        .ok();
    let line = up.wait_for("built-in server `demo` was stopped");
    assert!(line.contains("while no server is configured"), "{line}");
}

#[test]
fn reasons_are_in_words_and_not_in_types() {
    // None of these speaks MCP.
    let hermes = Hermes::with_config(
        &json!({"mcp_servers": {
            "refuses": {"url": "http://127.0.0.1:9/mcp"},
            "talks": {"command": "sh", "args": ["-c", "echo hello; sleep 600"], "connect_timeout": 2},
            "ends": {"command": "sh", "args": ["-c", "exit 3"]},
            "lies": {"command": "sh", "args": ["-c", "while read l; do echo '{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"a\":1}}'; done"], "connect_timeout": 2},
        }})
        .to_string(),
    );
    let ran = hermes.run(&["mcp", "test", "--all"]).exits_with(1);
    for word in [
        "::",
        "Error(",
        "Transport(",
        "StreamableHttp",
        "rmcp",
        "Some(",
        "Client",
    ] {
        assert!(!ran.stderr.contains(word), "{word}: {ran:?}");
    }
}
