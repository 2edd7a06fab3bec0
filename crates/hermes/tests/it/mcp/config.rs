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

use hermes_config::{Home, Settings};
use hermes_mcp::{Host, HostOptions, LinkStatus, control::ControlSocket, process::GuardProgram};
use serde_json::json;

use crate::harness::program::{Hermes, entry, with_tools};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_is_applied_by_the_running_process() {
    let config = json!({"mcp_servers": {"kit": entry(&with_tools(&["read", "write"]))}});
    let hermes = Hermes::with_config(&config.to_string());
    let home = Home::at(hermes.home.path());
    let guard = GuardProgram {
        path: env!("CARGO_BIN_EXE_hermes").into(),
        args: vec!["__guard".into()],
    };
    let settings = Settings::load(&home).unwrap();
    let host = Host::start(HostOptions::new(home.clone(), guard), &settings).await;
    host.wait_until_settled(std::time::Duration::from_secs(30))
        .await;
    let socket = ControlSocket::open(&home).unwrap();
    let edits = async {
        let run = |line: &'static [&'static str]| {
            let command = hermes.command(line);
            tokio::task::spawn_blocking(move || crate::harness::program::run(command, "").ok())
        };
        let ran = run(&["mcp", "tools", "kit", "--include", "read"])
            .await
            .unwrap();
        assert!(
            ran.stderr.contains("running hermes process has reloaded"),
            "{ran:?}"
        );
        let registry = host.registry();
        let tools: Vec<&str> = registry.tools().map(|tool| tool.original_name()).collect();
        assert!(
            tools.contains(&"read") && !tools.contains(&"write"),
            "{tools:?}"
        );

        run(&["mcp", "disable", "kit"]).await.unwrap();
        assert_eq!(host.status()[0].status, LinkStatus::Disabled);
        run(&["mcp", "remove", "kit", "--yes"]).await.unwrap();
        assert!(host.status().is_empty());
    };
    tokio::select! {
        () = edits => {}
        () = socket.serve(&host) => {}
    }
    host.shutdown().await;
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
