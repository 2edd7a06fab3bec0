use serde_json::json;

use super::COMMENTED;
use crate::harness::program::Hermes;

#[test]
fn one_key_changes_and_changes_back() {
    let hermes = Hermes::with_config(COMMENTED);
    let json = hermes
        .run(&["mcp", "disable", "files", "--json"])
        .ok()
        .json();
    assert_eq!(
        json,
        json!({"ok": true, "server": "files", "enabled": false})
    );
    let line = "    enabled: false\n";
    assert_eq!(hermes.config().replacen(line, "", 1), COMMENTED);
    assert_eq!(hermes.entry("files")["enabled"], false);

    let json = hermes
        .run(&["mcp", "enable", "files", "--json"])
        .ok()
        .json();
    assert_eq!(json["enabled"], true);
    let line = "    enabled: true\n";
    assert_eq!(hermes.config().replacen(line, "", 1), COMMENTED);
}

#[test]
fn what_is_so_already_is_not_written() {
    let hermes = Hermes::with_config(COMMENTED);
    let ran = hermes.run(&["mcp", "enable", "shop"]).ok();
    assert!(ran.stderr.contains("enabled already"), "{ran:?}");
    assert_eq!(hermes.config(), COMMENTED);
}

#[test]
fn an_entry_that_cannot_be_used_can_be_switched_off() {
    let hermes = Hermes::with_config("mcp_servers:\n  odd: {args: [a]}\n");
    hermes.run(&["mcp", "disable", "odd"]).ok();
    assert_eq!(
        hermes.entry("odd"),
        json!({"args": ["a"], "enabled": false})
    );
}

#[test]
fn an_unknown_server_is_not_found() {
    let hermes = Hermes::new();
    for verb in ["enable", "disable"] {
        hermes
            .run(&["mcp", verb, "nope", "--json"])
            .refused(3, "not_found");
    }
}
