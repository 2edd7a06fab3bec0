use hermes_testkit::{Behaviour, Tool};
use serde_json::{Value, json};

use crate::harness::program::{Hermes, entry, with_tools};

/// A server with a filter, and comments around it.
fn filtered(tools: &str) -> (Hermes, String) {
    let kit = entry(&with_tools(&["read", "write", "delete"]));
    let text = format!(
        "mcp_servers:\n  kit:\n    command: {}\n    args: {}\n    tools:\n      # Ours.\n{tools}      resources: no  # none\n      prompts: false\n    timeout: 9 # s\n",
        kit["command"], kit["args"]
    );
    (Hermes::with_config(&text), text)
}

fn names(json: &Value) -> Vec<(String, bool)> {
    let tools = json["tools"].as_array().unwrap().iter();
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    tools
        .map(|tool| (name(tool), tool["included"] == true))
        .collect()
}

#[test]
fn a_filter_changes_and_everything_else_stays() {
    let (hermes, text) = filtered("      exclude: [delete]\n");
    let json = hermes
        .run(&[
            "mcp",
            "tools",
            "kit",
            "--include",
            "re*",
            "--include",
            "write",
            "--json",
        ])
        .ok()
        .json();
    let included = [("read", true), ("write", true), ("delete", false)];
    assert_eq!(
        names(&json),
        included.map(|(name, is)| (name.to_owned(), is))
    );
    let tools = &hermes.entry("kit")["tools"];
    assert_eq!(
        tools,
        &json!({"resources": "no", "prompts": false, "include": ["re*", "write"]})
    );
    for line in text
        .lines()
        .filter(|line| !line.contains("exclude") && !line.contains("Ours"))
    {
        assert!(
            hermes.config().contains(line),
            "{line}\n{}",
            hermes.config()
        );
    }

    hermes
        .run(&["mcp", "tools", "kit", "--exclude", "write"])
        .ok();
    let tools = &hermes.entry("kit")["tools"];
    assert_eq!(
        tools,
        &json!({"resources": "no", "prompts": false, "exclude": ["write"]})
    );

    hermes.run(&["mcp", "tools", "kit", "--all"]).ok();
    let tools = &hermes.entry("kit")["tools"];
    assert_eq!(tools, &json!({"resources": "no", "prompts": false}));
}

#[test]
fn without_other_keys_the_section_goes_with_the_filter() {
    let kit = entry(&with_tools(&["read"]));
    let text = format!(
        "mcp_servers:\n  kit:\n    command: {}\n    args: {}\n",
        kit["command"], kit["args"]
    );
    let hermes = Hermes::with_config(&text);
    hermes
        .run(&["mcp", "tools", "kit", "--include", "read"])
        .ok();
    assert_ne!(hermes.config(), text);
    hermes.run(&["mcp", "tools", "kit", "--all"]).ok();
    assert_eq!(hermes.config(), text);
}

#[test]
fn a_pattern_that_matches_nothing_is_a_warning() {
    let (hermes, _) = filtered("");
    let ran = hermes
        .run(&["mcp", "tools", "kit", "--include", "raed"])
        .ok();
    assert!(ran.stderr.contains("`raed` matches none"), "{ran:?}");
}

#[test]
fn the_schema_is_as_received() {
    let schema = json!({"type": "object", "definitions": {"a": {"type": ["string", "null"]}}});
    let tool = Tool::defined(json!({"name": "odd-name.v2", "inputSchema": schema}));
    let kit = entry(&Behaviour::new().tools([tool]));
    let hermes = Hermes::with_config(&json!({"mcp_servers": {"my-api": kit}}).to_string());
    let json = hermes
        .run(&["mcp", "tools", "my-api", "--json"])
        .ok()
        .json();
    let expected = json!({
        "server": "my-api", "name": "odd-name.v2", "registered_name": "mcp_my_api_odd_name_v2",
        "included": true, "schema": schema, "pin": "new",
    });
    assert_eq!(json["tools"], json!([expected]));
}

#[test]
fn a_person_gets_a_table() {
    let (hermes, _) = filtered("      exclude: [delete]\n");
    let ran = hermes.run(&["mcp", "tools", "kit"]).ok();
    insta::assert_snapshot!(ran.stdout, @r"
    SERVER  TOOL    REGISTERED AS   DESCRIPTION
    kit     read    mcp_kit_read    Does read
    kit     write   mcp_kit_write   Does write
    kit     delete  (filtered out)  Does delete
    ");
    assert!(
        ran.stderr.contains("2 tools offered; 1 left out"),
        "{ran:?}"
    );
}

#[test]
fn a_disabled_server_is_known_from_last_time() {
    let (hermes, _) = filtered("");
    hermes.run(&["mcp", "disable", "kit"]).ok();
    hermes
        .run(&["mcp", "tools", "kit", "--json"])
        .refused(1, "failed");
    hermes.run(&["mcp", "enable", "kit"]).ok();
    hermes.run(&["mcp", "tools", "kit"]).ok();
    hermes.run(&["mcp", "disable", "kit"]).ok();
    let ran = hermes.run(&["mcp", "tools", "kit", "--json"]).ok();
    assert_eq!(names(&ran.json()).len(), 3);
    assert!(ran.stderr.contains("it is disabled"), "{ran:?}");
}

#[test]
fn a_lazy_server_is_started_once() {
    let home = Hermes::new();
    let pids = home.home.path().join("pids");
    let behaviour = with_tools(&["read"]).process(|process| process.pid_file = Some(pids.clone()));
    let mut kit = entry(&behaviour);
    kit["lazy"] = true.into();
    home.home
        .write_config(&json!({"mcp_servers": {"kit": kit}}).to_string());
    for _ in 0..2 {
        let json = home.run(&["mcp", "tools", "kit", "--json"]).ok().json();
        assert_eq!(names(&json), [("read".to_owned(), true)]);
    }
    let starts = std::fs::read_to_string(&pids).unwrap();
    let first: Vec<&str> = starts.lines().collect();
    home.run(&["mcp", "tools", "kit"]).ok();
    let starts = std::fs::read_to_string(&pids).unwrap();
    assert_eq!(starts.lines().collect::<Vec<_>>(), first);
}

#[test]
fn all_servers_are_listed_and_a_broken_one_does_not_hide_the_others() {
    let config = json!({"mcp_servers": {
        "one": entry(&with_tools(&["read"])),
        "broken": {"command": "no-such-program"},
        "two": entry(&with_tools(&["write"])),
    }});
    let hermes = Hermes::with_config(&config.to_string());
    let ran = hermes.run(&["mcp", "tools", "--json"]).refused(1, "failed");
    let json = ran.json();
    assert_eq!(
        names(&json),
        [("read".to_owned(), true), ("write".to_owned(), true)]
    );
    assert!(
        json["error"]["message"]
            .as_str()
            .unwrap()
            .contains("broken")
    );
    hermes.run(&["mcp", "disable", "broken"]).ok();
    hermes.run(&["mcp", "tools"]).ok();
}

#[test]
fn an_edit_holds_even_if_the_server_cannot_be_reached() {
    let hermes = Hermes::with_config("mcp_servers:\n  kit:\n    command: no-such-program\n");
    let ran = hermes
        .run(&["mcp", "tools", "kit", "--include", "a", "--json"])
        .ok();
    assert_eq!(ran.json()["tools"], json!([]));
    assert_eq!(hermes.entry("kit")["tools"]["include"], json!(["a"]));
}

#[test]
fn flags_need_a_known_server() {
    let hermes = Hermes::new();
    hermes
        .run(&["mcp", "tools", "--include", "a", "--json"])
        .refused(2, "usage");
    hermes
        .run(&["mcp", "tools", "nope", "--json"])
        .refused(3, "not_found");
    hermes
        .run(&["mcp", "tools", "nope", "--all", "--json"])
        .refused(3, "not_found");
}
