use serde_json::json;

use crate::harness::program::{Hermes, entry, with_tools};

fn hermes(tools: &serde_json::Value) -> Hermes {
    let mut kit = entry(&with_tools(&["read", "write", "delete"]));
    kit["tools"] = tools.clone();
    Hermes::with_config(&json!({"mcp_servers": {"kit": kit}}).to_string())
}

#[test]
fn the_named_tools_are_offered_and_utilities_stay_as_they_were() {
    let hermes = hermes(&json!({"exclude": ["delete"], "resources": false, "prompts": false}));
    let line = [
        "mcp",
        "configure",
        "kit",
        "--select",
        "write",
        "--select",
        "read",
        "--json",
    ];
    hermes.run(&line).ok();
    // The same choice as before: nothing to write.
    let tools = &hermes.entry("kit")["tools"];
    assert_eq!(tools["exclude"], json!(["delete"]));

    let json = hermes
        .run(&["mcp", "configure", "kit", "--select", "delete", "--json"])
        .ok()
        .json();
    assert_eq!(json["tools"][2]["included"], true);
    assert_eq!(json["tools"][0]["included"], false);
    let tools = &hermes.entry("kit")["tools"];
    assert_eq!(
        tools,
        &json!({"include": ["delete"], "resources": false, "prompts": false})
    );
}

#[test]
fn all_tools_mean_no_filter() {
    let hermes = hermes(&json!({"include": ["read"], "prompts": false}));
    let line = [
        "--select", "read", "--select", "write", "--select", "delete",
    ];
    hermes
        .run(&[&["mcp", "configure", "kit"], &line[..]].concat())
        .ok();
    assert_eq!(hermes.entry("kit")["tools"], json!({"prompts": false}));
}

#[test]
fn without_a_terminal_somebody_has_to_say() {
    let hermes = hermes(&json!({"include": ["re*"]}));
    let before = hermes.config();
    hermes
        .run(&["mcp", "configure", "kit", "--json"])
        .refused(5, "answer_needed");
    hermes
        .run(&["mcp", "configure", "kit", "--yes", "--json"])
        .ok();
    hermes
        .run(&["mcp", "configure", "kit", "--select", "raed", "--json"])
        .refused(3, "not_found");
    hermes
        .run(&["mcp", "configure", "nope", "--json"])
        .refused(3, "not_found");
    assert_eq!(hermes.config(), before);
}

#[test]
fn a_server_that_cannot_be_reached_is_left_alone() {
    let hermes = Hermes::with_config("mcp_servers:\n  kit:\n    command: no-such-program\n");
    hermes
        .run(&["mcp", "configure", "kit", "--select", "a", "--json"])
        .refused(1, "failed");
}
