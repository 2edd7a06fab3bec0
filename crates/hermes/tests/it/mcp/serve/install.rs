//! `--install`: entries in other programs' files.

use std::fs;

use super::*;

const PLACES: [(&str, &str); 5] = [
    ("claude-code", ".claude.json"),
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
    ),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".config/Code/User/mcp.json"),
    ("codex", ".codex/config.toml"),
];

#[test]
fn each_client_gets_an_entry_that_our_own_import_understands() {
    for (client, place) in PLACES {
        let hermes = Hermes::new();
        let path = hermes.user().join(place);
        let wrote = hermes
            .run(&["mcp", "serve", "--install", client, "--read-only", "--json"])
            .ok()
            .json();
        assert_eq!(
            (&wrote["client"], &wrote["changed"]),
            (&json!(client), &json!(true))
        );
        assert_eq!(wrote["path"], path.to_str().unwrap());
        assert_eq!(
            wrote["entry"]["args"],
            json!(["mcp", "serve", "--read-only"])
        );
        assert_eq!(
            wrote["entry"]["env"]["HERMES_HOME"],
            hermes.home.path().to_str().unwrap()
        );
        let text = fs::read(&path).unwrap();

        let again = hermes
            .run(&["mcp", "serve", "--install", client, "--read-only", "--json"])
            .ok()
            .json();
        assert_eq!(again["changed"], false);
        assert_eq!(fs::read(&path).unwrap(), text);

        hermes.run(&["mcp", "import", client, "--yes"]).ok();
        assert_eq!(
            hermes.entry("hermes")["command"],
            env!("CARGO_BIN_EXE_hermes"),
            "{client}"
        );
    }
}

#[test]
fn the_rest_of_a_file_stays() {
    let hermes = Hermes::new();
    let path = hermes.user().join(".cursor/mcp.json");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let before = "{\n\t// mine\n\t\"mcpServers\": {\n\t\t\"a\": {\"url\": \"https://a\"}\n\t}\n}\n";
    fs::write(&path, before).unwrap();
    let shown = hermes.run(&["mcp", "serve", "--install", "cursor"]).ok();
    assert!(
        shown.stdout.contains(path.to_str().unwrap()) && shown.stdout.contains("\"serve\""),
        "{shown:?}"
    );
    let after = fs::read_to_string(&path).unwrap();
    let kept = "{\n\t// mine\n\t\"mcpServers\": {\n\t\t\"a\": {\"url\": \"https://a\"}";
    assert!(after.starts_with(kept), "{after}");
    assert!(
        after.contains("\n\t\t\"hermes\": {\n\t\t\t\"command\":"),
        "{after}"
    );
}

#[test]
fn a_broken_file_is_refused_and_not_touched() {
    for (client, place, text) in [
        ("claude-code", ".claude.json", "{\n  \"mcpServers\": {\n"),
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
            "{ // no comments\n}",
        ),
        ("codex", ".codex/config.toml", "a = = 1\n"),
        ("vscode", ".config/Code/User/mcp.json", "{\"servers\": 5}"),
    ] {
        let hermes = Hermes::new();
        let path = hermes.user().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let refused = hermes
            .run(&["mcp", "serve", "--install", client])
            .exits_with(2);
        assert!(refused.stderr.contains(place), "{refused:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}
