//! `hermes policy …`, `hermes specialization …`, `hermes hub config …` and `hermes hub audit …`

use std::process::Command;

use serde_json::json;

use crate::hub::hub_process::HubProcess;

#[test]
fn the_policy_is_replaced_and_explained() {
    let hub = HubProcess::with_acme();
    let put = ["policy", "put", "-", "--yes"];
    hub.run_with_input(&put, r#"{"tools": {"deny": ["terminal"]}}"#)
        .ok();
    let policy = hub.run(&["policy", "get"]).ok().json();
    assert_eq!(policy["tools"]["deny"], json!(["terminal"]));
    let explained = hub.run(&["policy", "explain", "acme", "terminal"]).ok();
    assert!(explained.stdout.starts_with("deny: "), "{explained:?}");
    hub.run_with_input(&put, r#"{"tolls": {}}"#).exits_with(1);
    hub.run_with_input(&put, "no json").exits_with(2);
    hub.run_with_input(&["policy", "put", "-"], "{}")
        .exits_with(5);
}

#[test]
fn an_earlier_revision_of_a_document_is_restored() {
    let hub = HubProcess::new();
    for tool in ["terminal", "read_file"] {
        let policy = json!({"tools": {"deny": [tool]}}).to_string();
        hub.run_with_input(&["policy", "put", "-", "--yes"], &policy)
            .ok();
    }
    let listed = hub.run(&["policy", "revisions"]).ok();
    let numbers: Vec<&str> = listed
        .stdout
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(numbers, ["2", "1"], "{listed:?}");
    hub.run(&["policy", "restore", "1"]).exits_with(5);
    hub.run(&["policy", "restore", "1", "--yes"]).ok();
    let policy = hub.run(&["policy", "get"]).ok().json();
    assert_eq!(policy["tools"]["deny"], json!(["terminal"]));
    hub.run(&["policy", "restore", "99", "--yes"]).exits_with(3);
    for family in [&["specialization"][..], &["hub", "config"]] {
        let revisions = [family, &["revisions"]].concat();
        assert_eq!(hub.json(&revisions)["revisions"], json!([]));
    }
}

#[test]
fn the_specialization_is_put_and_cleared() {
    let hub = HubProcess::new();
    hub.run_with_input(
        &["specialization", "put", "-", "--yes"],
        "You work for Acme.\n",
    )
    .ok();
    assert_eq!(
        hub.run(&["specialization", "get"]).ok().stdout,
        "You work for Acme.\n"
    );
    hub.run_with_input(&["specialization", "put", "-", "--yes"], "")
        .ok();
    assert_eq!(hub.json(&["specialization", "get"])["content"], "");
}

#[test]
fn the_configuration_is_patched() {
    let hub = HubProcess::new();
    hub.run_with_input(
        &["hub", "config", "patch", "-", "--yes"],
        r#"{"feature": {"enabled": true}}"#,
    )
    .ok();
    let config = hub.run(&["hub", "config", "get"]).ok().json();
    assert_eq!(config["feature"], json!({"enabled": true}));
}

#[test]
fn the_audit_log_is_shown_verified_and_exported() {
    let hub = HubProcess::with_acme();
    let tail = hub
        .run(&["hub", "audit", "tail", "--action", "create_tenant"])
        .ok();
    assert!(tail.stdout.contains("create_tenant"), "{tail:?}");
    let verified = hub.run(&["hub", "audit", "verify"]).ok();
    assert!(verified.stdout.contains("none was changed"), "{verified:?}");
    let exported = hub.run(&["hub", "audit", "export"]).ok();
    let first: serde_json::Value =
        serde_json::from_str(exported.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["seq"], 1);
}

/// Changes a database that others have open: its path and the statement come as arguments.
const CHANGE: &str = "
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=30)
with connection:
    assert connection.execute(sys.argv[2]).rowcount == 1
";

#[test]
fn an_entry_of_the_audit_log_that_was_changed_is_named_and_the_exit_code_is_1() {
    let hub = HubProcess::with_acme();
    let tail = hub.json(&["hub", "audit", "tail", "--action", "create_tenant"]);
    let seq = tail["entries"][0]["seq"].as_u64().unwrap();
    let one_byte = format!(
        "UPDATE audit SET text = replace(text, '\"create_tenant', '\"Create_tenant') WHERE seq = {seq}"
    );
    let changed = Command::new("python3")
        .args(["-c", CHANGE])
        .arg(hub.data().join("hub.db"))
        .arg(one_byte)
        .status();
    assert!(changed.unwrap().success());
    let verify = ["hub", "audit", "verify"];
    let told = hub.run(&verify).exits_with(1);
    let entry = format!("entry {seq} of chain");
    assert!(told.stderr.contains(&entry), "{told:?}");
    assert!(!told.stdout.contains("none was changed"), "{told:?}");
    let told = hub.run(&[&verify[..], &["--json"]].concat()).exits_with(1);
    let chain = &told.json()["chains"][0];
    assert_eq!(chain["firstBrokenSeq"], seq, "{told:?}");
}
