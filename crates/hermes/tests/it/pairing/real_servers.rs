//! Hermes Agent 0.19, in Python, on the same files: codes, approvals and lock-outs of one hold for the other.

use std::{path::Path, process::Command};

use super::*;
use crate::harness::program::installed;

/// Runs a statement with 0.19's store of the home and returns what it prints.
fn python(hermes: &Hermes, python: &Path, statement: &str) -> String {
    let output = Command::new(python)
        .arg("-c")
        .arg(format!(
            "from gateway.pairing import PairingStore\nstore = PairingStore()\n{statement}"
        ))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HERMES_HOME", hermes.home.path())
        .env("HOME", hermes.user())
        .current_dir(hermes.user())
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_code_of_0_19_is_approved_and_revoked_here() {
    let Some(program) = installed("HERMES_TEST_VENV_HERMES", "bin/python") else {
        return;
    };
    let hermes = Hermes::new();
    let issue = "print(store.generate_code('telegram', '5', 'Ann'))";
    let code = python(&hermes, &program, issue);
    hermes.run(&["pairing", "approve", "telegram", &code]).ok();
    let is_approved = "print(store.is_approved('telegram', '5'))";
    assert_eq!(python(&hermes, &program, is_approved), "True");
    hermes.run(&["pairing", "revoke", "telegram", "5"]).ok();
    assert_eq!(python(&hermes, &program, is_approved), "False");
}

#[test]
fn a_code_from_here_is_approved_by_0_19() {
    let Some(program) = installed("HERMES_TEST_VENV_HERMES", "bin/python") else {
        return;
    };
    let hermes = Hermes::new();
    let store = gateway(&hermes);
    let code = code(&store, "telegram", "5");
    let approve = format!("print(store.approve_code('telegram', '{code}')['user_name'])");
    assert_eq!(python(&hermes, &program, &approve), "Ann");
    assert!(store.is_approved("telegram", "5"));
    let listed = hermes.run(&["pairing", "list", "--json"]).ok().json();
    assert_eq!(listed["approved"][0]["user_name"], "Ann");
    // A user gets no second code from the other one within ten minutes.
    let issue = "print(store.generate_code('telegram', '5', 'Ann'))";
    assert_eq!(python(&hermes, &program, issue), "None");
}

#[test]
fn a_lock_out_of_one_holds_for_the_other() {
    let Some(program) = installed("HERMES_TEST_VENV_HERMES", "bin/python") else {
        return;
    };
    let hermes = Hermes::new();
    let store = gateway(&hermes);
    let code = code(&store, "telegram", "5");
    let wrong = "for _ in range(5): store.approve_code('telegram', 'WRONGWRG')";
    python(&hermes, &program, wrong);
    let ran = hermes.run(&["pairing", "approve", "telegram", &code]);
    assert!(ran.stderr.contains("60 minutes"), "{ran:?}");
    for _ in 0..5 {
        hermes.run(&["pairing", "approve", "slack", "WRONGWRG"]);
    }
    let is_locked = "print(store._is_locked_out('slack'))";
    assert_eq!(python(&hermes, &program, is_locked), "True");
}
