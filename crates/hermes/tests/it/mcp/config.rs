//! Commands that change the configuration.

mod add;
mod asked;
mod catalog;
mod configure;
mod import;
mod install;
mod pins;
mod remove;
mod tools;

use serde_json::json;

use crate::harness::{
    program::{Hermes, entry, with_tools},
    test_home::TestHome,
};

/// A file with everything an edit could spoil: comments, quoting, order, references.
const COMMENTED: &str = "\
# My servers.
model: 'gpt-5'   # the best

mcp_servers:
  # Talks to the shop.
  shop:
    url: \"https://shop.example.com/mcp\"   # staging
    headers: {Authorization: 'Bearer ${SHOP_TOKEN}'}
    tools:
      # Never delete anything.
      exclude: [delete_order]
      resources: no
      prompts: false

  # Files, read only.
  files:
    command: npx
    args: [\"-y\", '@modelcontextprotocol/server-filesystem', /tmp]
    timeout: 90

approvals:
  mcp_reload_confirm: true
";

// A running process hears of an edit at once.

#[test]
fn an_edit_is_applied_by_the_running_process() {
    let home = TestHome::fresh();
    std::fs::create_dir(home.path()).unwrap();
    home.write_servers(&[("kit", entry(&with_tools(&["read", "write"])))]);
    let _up = home.up(&["kit: ready"]);
    let status = || home.run(&["mcp", "status", "--json"]).ok().json()["servers"].clone();
    let count = || status()[0]["tools"].as_u64().unwrap();
    let both = count();
    let ran = home.run(&["mcp", "tools", "kit", "--include", "read"]).ok();
    assert!(
        ran.stderr.contains("running hermes process has reloaded"),
        "{ran:?}"
    );
    assert_eq!(count(), both - 1, "{}", status());
    home.run(&["mcp", "disable", "kit"]).ok();
    assert_eq!(status()[0]["status"], "disabled", "{}", status());
    home.run(&["mcp", "remove", "kit", "--yes"]).ok();
    // Without a server of one's own, the built-in one is there.
    let left = status();
    assert!(
        left.as_array()
            .unwrap()
            .iter()
            .all(|it| it["name"] == "demo"),
        "{left}"
    );
}

// `hermes mcp enable` and `disable`.

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
