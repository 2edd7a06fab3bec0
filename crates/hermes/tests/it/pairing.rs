//! `hermes pairing …`.

mod real_servers;

use hermes_config::Home;
use hermes_gateway::access::{CodeOffer, PairingStore};
use serde_json::json;

use crate::harness::program::{Hermes, assert_private};

/// The store as a running gateway has it open.
fn gateway(hermes: &Hermes) -> PairingStore {
    PairingStore::new(&Home::at(hermes.home.path()))
}

fn code(store: &PairingStore, account: &str, user: &str) -> String {
    match store.request_code(account, user, "Ann").unwrap() {
        CodeOffer::Issued(code) => code.expose().clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nobody_is_listed_in_a_new_home_and_nothing_is_created() {
    let hermes = Hermes::new();
    let ran = hermes.run(&["pairing", "list", "--json"]).ok();
    assert_eq!(ran.json()["pending"], json!([]));
    assert_eq!(ran.json()["approved"], json!([]));
    hermes.run(&["pairing", "clear-pending"]).ok();
    assert!(!hermes.home.path().join("pairing").exists());
}

#[test]
fn somebody_is_let_in_by_a_code_and_out_again() {
    let hermes = Hermes::new();
    let store = gateway(&hermes);
    let code = code(&store, "telegram", "5");
    let ran = hermes.run(&["pairing", "list"]).ok();
    assert!(ran.stdout.contains("waits, 60 min left"), "{ran:?}");
    // The list is not the place to find codes.
    let ran = ran.hides(&[&code]);
    assert!(ran.stdout.contains("Ann"), "{ran:?}");
    let ran = hermes.run(&["pairing", "approve", "Telegram", &code.to_lowercase()]);
    let ran = ran.ok();
    assert!(ran.stderr.contains("Ann (`5`) may use the bot"), "{ran:?}");
    assert!(store.is_approved("telegram", "5"));
    let listed = hermes.run(&["pairing", "ls", "--json"]).ok().json();
    assert_eq!(listed["approved"][0]["user_id"], "5");
    assert_eq!(listed["pending"], json!([]));
    let files = hermes.home.path().join("pairing");
    for name in [
        "telegram-approved.json",
        "telegram-pending.json",
        "_rate_limits.json",
    ] {
        assert_private(&files.join(name));
    }
    let ran = hermes.run(&["pairing", "revoke", "telegram", "5", "--json"]);
    assert_eq!(ran.ok().json()["revoked"], "5");
    assert!(!store.is_approved("telegram", "5"));
    hermes
        .run(&["pairing", "revoke", "telegram", "5", "--json"])
        .refused(3, "not_found");
}

#[test]
fn five_wrong_codes_are_the_last_for_an_hour() {
    let hermes = Hermes::new();
    let store = gateway(&hermes);
    let code = code(&store, "slack", "U1");
    for _ in 0..4 {
        hermes
            .run(&["pairing", "approve", "slack", "WRONGWRG", "--json"])
            .refused(3, "not_found");
    }
    let ran = hermes.run(&["pairing", "approve", "slack", "WRONGWRG"]);
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("another 60 minutes"), "{ran:?}");
    let ran = hermes.run(&["pairing", "approve", "slack", &code]);
    assert_ne!(ran.code, 0);
    assert!(!store.is_approved("slack", "U1"));
}

#[test]
fn accounts_have_their_own_codes() {
    let hermes = Hermes::with_config("telegram: {accounts: {work: {token: '1:a'}}}\n");
    let store = gateway(&hermes);
    let code = code(&store, "telegram@work", "5");
    hermes
        .run(&["pairing", "approve", "telegram", &code, "--json"])
        .refused(3, "not_found");
    hermes
        .run(&["pairing", "approve", "telegram@play", &code, "--json"])
        .refused(3, "not_found");
    hermes
        .run(&["pairing", "approve", "telegram@work", &code])
        .ok();
    assert!(store.is_approved("telegram@work", "5"));
    assert!(!store.is_approved("telegram", "5"));
}

#[test]
fn codes_are_forgotten_and_a_platform_must_be_one() {
    let hermes = Hermes::new();
    let store = gateway(&hermes);
    let first = code(&store, "telegram", "5");
    code(&store, "discord", "6");
    let ran = hermes.run(&["pairing", "clear-pending", "--json"]).ok();
    assert_eq!(ran.json()["cleared"], 2);
    hermes
        .run(&["pairing", "approve", "telegram", &first, "--json"])
        .refused(3, "not_found");
    let ran = hermes.run(&["pairing", "approve", "telegrma", &first]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("did you mean `telegram`?"), "{ran:?}");
}

#[test]
fn whoever_is_on_an_allow_list_too_is_named_when_revoked() {
    let hermes = Hermes::new();
    hermes.home.write(".env", "TELEGRAM_ALLOWED_USERS=5\n");
    let store = gateway(&hermes);
    let code = code(&store, "telegram", "5");
    hermes.run(&["pairing", "approve", "telegram", &code]).ok();
    let ran = hermes.run(&["pairing", "revoke", "telegram", "5"]).ok();
    assert!(
        ran.stderr.contains("`TELEGRAM_ALLOWED_USERS` has them"),
        "{ran:?}"
    );
}
