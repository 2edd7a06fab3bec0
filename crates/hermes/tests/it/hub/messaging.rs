//! `hermes tenant platform`, `pairing` and `limits`.

use std::fs;

use serde_json::json;

use crate::hub::hub_process::HubProcess;

#[test]
fn a_platform_is_set_up_and_removed_and_its_token_is_not_printed() {
    let hub = HubProcess::with_acme();
    let token = "123456:secret-token";
    let set = [
        "tenant",
        "platform",
        "acme",
        "set",
        "telegram",
        "--token",
        "--allow-from",
        "12345",
    ];
    let done = hub.run_with_input(&set, &format!("{token}\n")).ok();
    assert!(
        done.stderr.contains("it is on") || done.stdout.contains("it is on"),
        "{done:?}"
    );
    done.hides(&[token]);
    let shown = hub.json(&["tenant", "platform", "acme", "get", "telegram"]);
    assert_eq!(shown["allowFrom"], json!(["12345"]));
    assert_eq!(shown["tokenEnv"], "TELEGRAM_BOT_TOKEN");
    let listed = hub.run(&["tenant", "platform", "acme", "list"]).ok();
    assert!(
        listed.stdout.contains("telegram") && listed.stdout.contains("12345"),
        "{listed:?}"
    );
    hub.run(&["tenant", "platform", "acme", "remove", "telegram", "--yes"])
        .ok();
    let shown = hub.json(&["tenant", "platform", "acme", "get", "telegram"]);
    assert_eq!(shown["enabled"], false);
    let empty = hub.run(&set).exits_with(2);
    assert!(empty.stderr.contains("stdin"), "{empty:?}");
}

#[test]
fn pairing_is_listed_approved_and_revoked() {
    let hub = HubProcess::with_acme();
    let home = hub.data().join("tenants/acme/home/pairing");
    fs::create_dir_all(&home).unwrap();
    let approved = r#"{"5": {"user_name": "Ann", "approved_at": 1.5}}"#;
    fs::write(home.join("telegram-approved.json"), approved).unwrap();
    let listed = hub.run(&["tenant", "pairing", "acme", "list"]).ok();
    assert!(listed.stdout.contains("Ann"), "{listed:?}");
    hub.run(&[
        "tenant", "pairing", "acme", "approve", "telegram", "WRONGWRG",
    ])
    .exits_with(3);
    hub.run(&[
        "tenant", "pairing", "acme", "revoke", "telegram", "5", "--yes",
    ])
    .ok();
    let listed = hub.json(&["tenant", "pairing", "acme", "list"]);
    assert_eq!(listed["approved"], json!([]));
}

#[test]
fn a_tenant_gets_daily_limits_and_loses_them_again() {
    let hub = HubProcess::with_acme();
    let update = ["tenant", "update", "acme"];
    let set = ["--runs-per-day", "1", "--tokens-per-day", "1000"];
    hub.run(&[&update[..], &set].concat()).ok();
    let limits = hub.json(&["tenant", "limits", "acme"]);
    assert_eq!(
        (&limits["runsPerDay"], &limits["tokensPerDay"]),
        (&json!(1), &json!(1000))
    );
    hub.run(&["tenant", "run", "acme", "Hello", "--watch"]).ok();
    let refused = hub.run(&["tenant", "run", "acme", "Hello"]).exits_with(1);
    assert!(refused.stderr.contains("1 runs a day"), "{refused:?}");
    hub.run(&[&update[..], &["--runs-per-day", "none"]].concat())
        .ok();
    hub.run(&["tenant", "run", "acme", "Hello", "--watch"]).ok();
    hub.run(&[&update[..], &["--runs-per-day", "many"]].concat())
        .exits_with(2);
}
