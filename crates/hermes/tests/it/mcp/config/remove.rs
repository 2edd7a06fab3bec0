use std::fs;

use serde_json::json;

use super::COMMENTED;
use crate::harness::program::{Hermes, entry, with_tools};

#[test]
fn the_entry_goes_with_its_comment_and_nothing_else() {
    let hermes = Hermes::with_config(COMMENTED);
    let json = hermes
        .run(&["mcp", "rm", "shop", "--yes", "--json"])
        .ok()
        .json();
    assert_eq!(json, json!({"ok": true, "removed": "shop"}));
    let start = COMMENTED.find("  # Talks to the shop.").unwrap();
    let end = COMMENTED.find("  # Files, read only.").unwrap();
    let mut expected = COMMENTED.to_owned();
    expected.replace_range(start..end, "\n");
    assert_eq!(hermes.config(), expected);
}

#[test]
fn tokens_pins_and_cache_go_too() {
    let kit = entry(&with_tools(&["read"]));
    let hermes = Hermes::with_config(&json!({"mcp_servers": {"git": kit}}).to_string());
    hermes.run(&["mcp", "test", "git", "--timeout", "60"]).ok();
    hermes.run(&["mcp", "tools", "git"]).ok();
    let cache = hermes.home.path().join("cache/mcp");
    assert!(fs::read_dir(&cache).unwrap().count() > 0);
    for file in ["git.json", "git.client.json", "github.json"] {
        hermes.home.write(&format!("mcp-tokens/{file}"), "{}");
    }
    let pin = json!({"read": {"sha256": "2", "definition": {}}});
    let pins = json!({"git": pin, "github": pin});
    hermes.home.write("mcp-pins.json", &pins.to_string());

    hermes.run(&["mcp", "remove", "git", "--yes"]).ok();
    let tokens = fs::read_dir(hermes.home.path().join("mcp-tokens")).unwrap();
    let tokens: Vec<_> = tokens.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(tokens, ["github.json"]);
    let pins: serde_json::Value = serde_json::from_str(&hermes.read("mcp-pins.json")).unwrap();
    assert_eq!(pins, json!({"github": pin}));
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
}

#[test]
fn without_a_terminal_it_needs_yes() {
    let hermes = Hermes::with_config(COMMENTED);
    hermes
        .run(&["mcp", "remove", "shop", "--json"])
        .refused(5, "answer_needed");
    assert_eq!(hermes.config(), COMMENTED);
}

#[test]
fn an_unknown_server_is_named_with_the_known_ones() {
    let hermes = Hermes::with_config(COMMENTED);
    let ran = hermes.run(&["mcp", "remove", "shpo", "--yes", "--json"]);
    let json = ran.refused(3, "not_found").json();
    assert_eq!(json["error"]["server"], "shpo");
    assert!(
        json["error"]["hints"][0]
            .as_str()
            .unwrap()
            .contains("did you mean `shop`?")
    );
}
