//! `hermes token …`, and where the token comes from.

use std::fs;

use crate::{harness::test_home::mode, hub::hub_process::HubProcess};

#[test]
fn a_token_is_made_used_rotated_and_revoked() {
    let hub = HubProcess::with_acme();
    let file = hub.home.beside("ci.token");
    let path = file.to_str().unwrap();
    let made = hub.run(&[
        "token", "create", "ci", "--role", "viewer", "--tenant", "acme", "--output", path,
    ]);
    made.ok().hides(&["hub_mgmt_"]);
    assert_eq!(mode(&file), 0o600);
    let secret = fs::read_to_string(&file).unwrap();

    let who = hub.run(&["token", "whoami", "--token-file", path]).ok();
    assert!(who.stdout.contains("name: ci"), "{who:?}");
    hub.run(&["tenant", "get", "acme", "--token-file", path])
        .ok();
    hub.run(&["tenant", "stop", "acme", "--token-file", path])
        .exits_with(4);
    let mut command = hub.command(&["token", "whoami", "--json"]);
    command.env("HERMES_HUB_TOKEN", secret.trim());
    assert_eq!(
        crate::harness::program::run(command, "").ok().json()["name"],
        "ci"
    );

    let tokens = hub.json(&["token", "list"]);
    let ci = tokens["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .find(|token| token["name"] == "ci")
        .unwrap();
    let id = ci["id"].as_str().unwrap();
    hub.run(&["token", "rotate", id, "--yes", "--output", path])
        .ok();
    assert_ne!(fs::read_to_string(&file).unwrap(), secret);
    hub.run(&["token", "whoami", "--token-file", path]).ok();
    hub.run(&["token", "revoke", id, "--yes"]).ok();
    hub.run(&["token", "whoami", "--token-file", path])
        .exits_with(4);
}

#[test]
fn no_token_is_told_with_what_to_do() {
    let hub = HubProcess::new();
    fs::remove_file(hub.data().join("admin.token")).unwrap();
    let refused = hub.run(&["tenant", "list"]).exits_with(4);
    assert!(refused.stderr.contains("HERMES_HUB_TOKEN"), "{refused:?}");
}

#[test]
fn a_token_among_the_secrets_is_found_by_the_hubs_name() {
    let hub = HubProcess::new();
    let secret = hub.token();
    fs::remove_file(hub.data().join("admin.token")).unwrap();
    let address = hub.url.strip_prefix("http://").unwrap();
    let name = format!("hub@{}", address.replace(':', "/"));
    hub.run_with_input(&["secret", "set", &name], &secret).ok();
    let who = hub.run(&["token", "whoami"]).ok();
    who.hides(&[&secret]);
    // It is that Hub's, and no other's.
    let other = hub
        .run(&["tenant", "list", "--hub", "http://hub.invalid:7878"])
        .exits_with(6);
    other.hides(&[&secret]);
}

#[test]
fn the_token_of_this_machine_is_for_no_other() {
    let hub = HubProcess::new();
    // It resolves to nowhere; what matters is that no token is presented, and that it is unavailable.
    let refused = hub
        .run(&["tenant", "list", "--hub", "http://hub.invalid:7878"])
        .exits_with(6);
    assert!(refused.stderr.contains("hub.invalid"), "{refused:?}");
}
